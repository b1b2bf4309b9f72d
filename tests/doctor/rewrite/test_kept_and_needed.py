"""What a Function keeps and computes for nobody: guards, save_for_backward, less that is saved; beside the original."""

import pytest
import torch

from gradwright.doctor.rewrite import propose
from gradwright.doctor.rules import all_rules
from gradwright.doctor.session.facts import SavedNotNeeded, TensorOnContext, UnneededGradient
from gradwright.doctor.session.model import Finding
from gradwright.doctor.session.place import Location

REWRITES = {loaded.rule.name: loaded.rule.rewrite for loaded in all_rules()}

AT = Location("net.py", 5)


def text_of(forward, backward, parameters="x, w"):
    def body(lines):
        return "\n".join("        " + line if line else "" for line in lines.split("\n"))

    return (
        "import torch\n\n\nclass Layer(torch.autograd.Function):\n    @staticmethod\n"
        f"    def forward(ctx, {parameters}):\n{body(forward)}\n\n    @staticmethod\n"
        f"    def backward(ctx, g):\n{body(backward)}\n"
    )


def proposed(name, text, *facts):
    finding = Finding("GW", name, "memory", "info", "Layer", AT, "", "", evidence=tuple(fact.id for fact in facts))
    return propose(REWRITES[name], finding, facts, text)


def unneeded(*indices):
    return UnneededGradient(
        id="u", subject="s", indices=indices, names=tuple("xw"[index] for index in indices), operations=1, seconds=1.0,
        bytes=1, share_of_backward=0.5, share_of_step=0.5, tried_on="",
    )  # fmt: skip


def on_ctx(attribute):
    return TensorOnContext(
        id=attribute, subject="s", attribute=attribute, role="input", bytes=1, location=AT, tried_on=""
    )


def in_vain(name, use="nothing"):
    return SavedNotNeeded(
        id=name, subject="s", name=name, use=use, role="input", bytes=1, share=0.5, location=AT, tried_on=""
    )


def gradients(text, wanted=(True, True)):
    names: dict = {}
    exec(text, names)
    generator = torch.Generator().manual_seed(0)
    inputs = [torch.randn(3, 3, dtype=torch.float64, generator=generator).requires_grad_(one) for one in wanted]
    out = names["Layer"].apply(*inputs)
    cotangent = torch.randn(out.shape, dtype=torch.float64, generator=generator)
    return torch.autograd.grad(out, [one for one in inputs if one.requires_grad], cotangent)


def changed(before, after):
    old, new = before.split("\n"), after.split("\n")
    return [line.strip() for line in new if line not in old]


SAVING = "ctx.save_for_backward(x, w)\nreturn x @ w"
GUARDED = {
    "under a name": (
        "x, w = ctx.saved_tensors\ngx = g @ w.t()\nreturn gx, x.t() @ g",
        ["gx = g @ w.t() if ctx.needs_input_grad[0] else None"],
    ),
    "in the return": (
        "x, w = ctx.saved_tensors\nreturn g @ w.t(), x.t() @ g",
        ["return g @ w.t() if ctx.needs_input_grad[0] else None, x.t() @ g"],
    ),
    "over several statements": (
        "x, w = ctx.saved_tensors\nturned = w.t()\ngx = torch.zeros_like(x)\nfor i in range(len(x)):\n"
        "    gx[i] = g[i] @ turned\nreturn gx, x.t() @ g",
        ["gx = None", "if ctx.needs_input_grad[0]:", "turned = w.t()", "gx = torch.zeros_like(x)",
         "for i in range(len(x)):", "gx[i] = g[i] @ turned"],
    ),
    "a part that the other needs too": (
        "x, w = ctx.saved_tensors\nturned = g.t()\ngx = (w @ turned).t()\nreturn gx, (turned @ x).t()",
        ["gx = (w @ turned).t() if ctx.needs_input_grad[0] else None"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", GUARDED)
def test_a_gradient_that_nobody_needs_is_guarded(case):
    backward, expected = GUARDED[case]
    text = text_of(SAVING, backward)
    (proposal,) = proposed("gradients-nobody-needs", text, unneeded(0))
    assert changed(text, proposal.new_text) == expected
    for wanted in ((True, True), (False, True), (True, False)):
        for one, other in zip(gradients(text, wanted), gradients(proposal.new_text, wanted), strict=True):
            assert torch.equal(one, other)


KEPT = {
    "with nothing saved": (
        "ctx.x = x\nctx.w = w  # both\nreturn x * w", "return g * ctx.w, g * ctx.x", ("x", "w"),
        ["ctx.save_for_backward(x, w)", "x, w = ctx.saved_tensors", "return g * w, g * x"],
    ),
    "beside what is saved": (
        "ctx.save_for_backward(x)\nctx.weight = w\nreturn x * w",
        '"""The two factors."""\n(x,) = ctx.saved_tensors\nw = ctx.weight\nreturn g * w, g * x', ("weight",),
        ["ctx.save_for_backward(x, w)", "x, w = ctx.saved_tensors"],
    ),
    "an output": (
        "y = torch.exp(x) * w\nctx.y = y\nctx.w = w\nreturn y", "return g * ctx.y, g * ctx.y / ctx.w", ("y", "w"),
        ["ctx.save_for_backward(y, w)", "y, w = ctx.saved_tensors", "return g * y, g * y / w"],
    ),
    "its name is taken": (
        "ctx.kept = w\nctx.save_for_backward(x)\nreturn x * w",
        "(x,) = ctx.saved_tensors\nw = 1.0\nreturn g * ctx.kept * w, g * x", ("kept",),
        ["ctx.save_for_backward(x, w)", "x, kept = ctx.saved_tensors", "return g * kept * w, g * x"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", KEPT)
def test_a_tensor_on_ctx_is_saved_properly(case):
    forward, backward, attributes, expected = KEPT[case]
    text = text_of(forward, backward)
    (proposal,) = proposed("tensor-kept-on-ctx", text, *map(on_ctx, attributes))
    assert changed(text, proposal.new_text) == expected
    for one, other in zip(gradients(text), gradients(proposal.new_text), strict=True):
        assert torch.equal(one, other)


DROPPED = {
    "never read": (
        "ctx.save_for_backward(x, w)\nreturn x + 2 * w", "x, w = ctx.saved_tensors\nreturn g, 2 * g * (w == w)", ("x",),
        "nothing", ["ctx.save_for_backward(w)", "(w,) = ctx.saved_tensors"],
    ),
    "its shape is read": (
        "ctx.save_for_backward(x, w)\nreturn x.sum() * w",
        "x, w = ctx.saved_tensors\nreturn (g * w).sum().expand(x.shape), g * x.size(0)", ("x",), "shape",
        ["ctx.x_shape = x.shape", "ctx.save_for_backward(w)", "(w,) = ctx.saved_tensors",
         "return (g * w).sum().expand(ctx.x_shape), g * ctx.x_shape[0]"],
    ),
    "all of it": (
        "ctx.save_for_backward(x)\nreturn x + w", "(x,) = ctx.saved_tensors\nreturn g.reshape(x.shape), g", ("x",),
        "shape",
        ["ctx.x_shape = x.shape", "return g.reshape(ctx.x_shape), g"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", DROPPED)
def test_what_the_backward_does_not_need_is_not_saved(case):
    forward, backward, names, use, expected = DROPPED[case]
    text = text_of(forward, backward)
    (proposal,) = proposed("saved-tensor-not-needed", text, *(in_vain(name, use) for name in names))
    assert changed(text, proposal.new_text) == expected
    for one, other in zip(gradients(text), gradients(proposal.new_text), strict=True):
        assert torch.equal(one, other)


DECLINED = {
    "saved under a condition": (
        "tensor-kept-on-ctx", "if x.sum() > 0:\n    ctx.x = x\nreturn x * w", "return g, g * ctx.x", on_ctx("x"),
    ),
    "changed in the backward": (
        "tensor-kept-on-ctx", "ctx.x = x\nreturn x * w", "ctx.x = ctx.x + 1\nreturn g, g * ctx.x", on_ctx("x"),
    ),
    "another value by then": (
        "tensor-kept-on-ctx", "ctx.x = x\nx = x + 1\nreturn x * w", "return g, g * ctx.x", on_ctx("x"),
    ),
    "read as a value after all": (
        "saved-tensor-not-needed", "ctx.save_for_backward(x)\nreturn x * w",
        "(x,) = ctx.saved_tensors\nreturn g, g * x",
        in_vain("x"),
    ),
    "unpacked as a whole": (
        "saved-tensor-not-needed", "ctx.save_for_backward(x, w)\nreturn x * w",
        "s = ctx.saved_tensors\nreturn g, g * s[0]",
        in_vain("w"),
    ),
    "returned in two places": (
        "gradients-nobody-needs", SAVING,
        "x, w = ctx.saved_tensors\nif g.sum() > 0:\n    return g, g\nreturn g @ w, x @ g",
        unneeded(0),
    ),
    "made together": (
        "gradients-nobody-needs", SAVING, "x, w = ctx.saved_tensors\ngx, gw = g @ w.t(), x.t() @ g\nreturn gx, gw",
        unneeded(0),
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", DECLINED)
def test_what_is_written_otherwise_is_left_alone(case):
    name, forward, backward, fact = DECLINED[case]
    assert proposed(name, text_of(forward, backward), fact) == ()


def test_another_reader_of_what_is_kept_forbids_the_change():
    text = text_of("ctx.x = x\nreturn x * w", "return g, g * ctx.x")
    text += "\n    @staticmethod\n    def jvp(ctx, a, b):\n        return ctx.x * b\n"
    assert proposed("tensor-kept-on-ctx", text, on_ctx("x")) == ()
