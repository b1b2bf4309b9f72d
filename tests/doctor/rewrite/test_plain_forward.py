"""A Function that nobody needs becomes a plain function; run beside the class. What else is done with it keeps it."""

import pytest
import torch

from gradwright.doctor.prove import Proved, prove_plain
from gradwright.doctor.rewrite import propose_plain
from gradwright.doctor.session.model import Finding
from gradwright.doctor.session.place import Location
from gradwright.ground import clock

HEAD = "import torch\nfrom torch.autograd import Function\n\n\n"


def method(name, parameters, body):
    lines = "".join(f"        {line}\n" if line else "\n" for line in body.split("\n"))
    return f"    @staticmethod\n    def {name}({parameters}):\n{lines}"


def text_of(forward, backward="(x,) = ctx.saved_tensors\nreturn 2 * x * g", *, before="", parameters="ctx, x",
            after="def go(x):\n    return Square.apply(x)\n", base="Function"):  # fmt: skip
    methods = method("forward", parameters, forward) + "\n" + method("backward", "ctx, g", backward)
    return f"{HEAD}class Square({base}):\n{before}{methods}\n\n{after}"


def proposed(text):
    line = text[: text.index("class Square")].count("\n") + 1
    finding = Finding("GW303", "function-not-needed", "speed", "info", "Square", Location("net.py", line), "", "")
    return propose_plain(finding, text)


def function_lines(proposal):
    first, last = proposal.lines
    return proposal.new_text.split("\n")[first - 1 : last]


def double_gradients(text, *rest):
    names: dict = {}
    exec(text, names)
    x = torch.randn(3, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0)).requires_grad_()
    value = names["go"](x, *rest)
    (first,) = torch.autograd.grad(value.square().sum(), x, create_graph=True)
    return value.detach(), first.detach(), torch.autograd.grad(first.sum(), x)[0]


SAVING = "ctx.save_for_backward(x)\nreturn x * x"
BECOMES = {
    "what is saved goes": (text_of(SAVING), ["def square(x):", "    return x * x"]),
    "so do attributes of ctx, and the comments above them": (
        text_of("# it\n# is kept\nctx.save_for_backward(x)\nctx.rows, ctx.of = len(x), x.dtype\nreturn x * x"),
        ["def square(x):", "    return x * x"],
    ),
    "what was made to be saved goes": (
        text_of("sign = x > 0\nmask = sign.float()\nctx.save_for_backward(x, mask)\ny = x * x  # the square\nreturn y",
                "x, _ = ctx.saved_tensors\nreturn 2 * x * g"),
        ["def square(x):", "    y = x * x  # the square", "    return y"],
    ),
    "what draws numbers stays": (
        text_of("noise = torch.rand(3)\nctx.noise = noise\nctx.save_for_backward(x)\nreturn x * x"),
        ["def square(x):", "    noise = torch.rand(3)", "    return x * x"],
    ),
    "the class's docstring becomes the function's": (
        text_of('"""By hand."""\n' + SAVING, before='    """x to x²."""\n\n'),
        ["def square(x):", '    """x to x²."""', "    # By hand.", "    return x * x"],
    ),
    "comments stay, empty lines where something went don't": (
        text_of("ctx.save_for_backward(x)\n\n# the square\ny = x * x\n\nctx.n = 2\n\nreturn y",
                before="    # by hand, in a hurry\n"),
        ["def square(x):", "    # by hand, in a hurry", "    # the square", "    y = x * x", "", "    return y"],
    ),
    "a forward with setup_context has no ctx": (
        text_of("return x * x", before=method("setup_context", "ctx, inputs, output", "ctx.save_for_backward(*inputs)"),
                parameters="x"),
        ["def square(x):", "    return x * x"],
    ),
    "annotations and defaults stay": (
        text_of("ctx.save_for_backward(x)\nreturn x**power", parameters="ctx, x: torch.Tensor, power: int = 2"),
        ["def square(x: torch.Tensor, power: int=2):", "    return x**power"],
    ),
    "an alias gives its name": (
        text_of(SAVING, after="square_of = Square.apply\n\n\ndef go(x):\n    return square_of(x)\n"),
        ["def square_of(x):", "    return x * x"],
    ),
    "a name that is taken is left alone": (
        text_of(SAVING, after="square = 2\n\n\ndef go(x):\n    return Square.apply(x) + square - 2\n"),
        ["def plain_square(x):", "    return x * x"],
    ),
    "a class in a function": (
        HEAD + "def go(x):\n" + "".join(
            f"    {line}\n" if line else "\n"
            for line in text_of(SAVING, after="return Square.apply(x)").removeprefix(HEAD).split("\n")
        ),
        ["    def square(x):", "        return x * x"],
    ),
}  # fmt: skip


@pytest.mark.parametrize(("text", "lines"), BECOMES.values(), ids=list(BECOMES))
def test_the_class_becomes_a_function_of_its_forwards_lines_and_means_the_same(text: str, lines: list[str]) -> None:
    (proposal,), _ = proposed(text)
    assert function_lines(proposal) == lines
    assert "Square.apply" not in proposal.new_text and "\n\n\n\n" not in proposal.new_text
    for before, after in zip(double_gradients(text), double_gradients(proposal.new_text), strict=True):
        torch.testing.assert_close(before, after)


def test_all_else_in_the_file_stays_byte_by_byte_whatever_its_line_ends() -> None:
    text = "\ufeff" + text_of(SAVING).replace("\n", "\r\n") + "odd = (1,  2) # so\r\n"
    (proposal,), _ = proposed(text)
    assert proposal.new_text == "\ufeff" + (
        HEAD + "def square(x):\n    return x * x\n\n\ndef go(x):\n    return square(x)\nodd = (1,  2) # so\n"
    ).replace("\n", "\r\n")


KEPT = {
    "it is subclassed": (text_of(SAVING, after="class Other(Square):\n    pass\n"), "otherwise than by Square.apply"),
    "its backward is called": (text_of(SAVING, after="print(Square.backward)\n"), "otherwise than by Square.apply"),
    "it is exported": (text_of(SAVING, after='__all__ = ["Square"]\n'), "otherwise than by Square.apply"),
    "its node is looked for": (text_of(SAVING, after='print("SquareBackward")\n'), "otherwise than by Square.apply"),
    "the name is bound again": (text_of(SAVING, after="Square = None\n"), "otherwise than by Square.apply"),
    "it is no mere Function": (text_of(SAVING, base="Function, object"), "more than a torch.autograd.Function"),
    "vmap has its own rule": (
        text_of(SAVING, before=method("vmap", "info, dims, x", "return x * x, 0")), "more than a forward and a backward"
    ),
    "it has a jvp": (text_of(SAVING, before=method("jvp", "ctx, t", "return t")), "more than a forward and a backward"),
    "outputs are declared": (
        text_of("y = x * x\nctx.mark_non_differentiable(y)\nreturn y"), "uses ctx for more than keeping tensors"
    ),
    "it asks who needs a gradient": (
        text_of("if ctx.needs_input_grad[0]:\n    ctx.save_for_backward(x)\nreturn x * x"), "uses ctx for more"
    ),
    "what it kept is read": (text_of("ctx.y = x * x\nreturn ctx.y"), "uses ctx for more than keeping tensors"),
    "an input is written into": (text_of("ctx.save_for_backward(x)\nreturn x.mul_(x)"), "writes into its inputs"),
    "a value is cut off": (text_of("ctx.save_for_backward(x)\nreturn x * x.detach()"), "does not see through `detach`"),
    "gradients are off": (
        text_of("ctx.save_for_backward(x)\nwith torch.no_grad():\n    return x * x"), "does not see through `no_grad`"
    ),
    "a number is taken out": (text_of("ctx.save_for_backward(x)\nreturn x * x.sum().item()"), "see through `item`"),
    "an input may be returned": (
        text_of("ctx.save_for_backward(x)\nreturn x if len(x) > 9 else x * x"), "may return `x` itself"
    ),
    "one of its results may not be used": (text_of("return x * x, x.sum()"), "it has several results"),
    "it calls itself": (text_of("return Square.apply(x[1:]) if len(x) > 9 else x * x"), "means something else"),
    "names of the class are used": (text_of("return __class__.scale(x)"), "means something else outside the class"),
    "a text over lines would be moved": (text_of('note = """a\nb"""\nreturn x * x'), "a text over several lines"),
    "it stands in a class": (
        "import torch\nfrom torch.autograd import Function\n\n\nclass Net:\n"
        "    class Square(Function):\n        pass\n", "part of the class Net"
    ),
}  # fmt: skip


@pytest.mark.parametrize(("text", "why"), KEPT.values(), ids=list(KEPT))
def test_a_class_of_which_more_is_asked_stays_and_the_reason_is_told(text: str, why: str) -> None:
    proposals, told = proposed(text)
    assert proposals == () and why in told


def proved(text, *args):
    (proposal,), _ = proposed(text)
    names: dict = {}
    exec(text, names)
    wanted = tuple(isinstance(one, torch.Tensor) for one in args)
    deadline = clock.now() + 20.0
    return prove_plain(proposal, names["Square"], names, [(args, wanted)], deadline=deadline)


def test_the_plain_function_is_proved_beside_the_class() -> None:
    found = proved(text_of(SAVING), torch.randn(6, 5))
    assert isinstance(found, Proved) and not found.unsafe
    assert found.proof.mutants_rejected >= 10 and found.proof.exact
    assert min(found.proof.after_seconds, found.proof.before_seconds) > 0  # type: ignore[type-var]  # both were measured


REJECTED = {
    "its backward is a surrogate": text_of("ctx.save_for_backward(x)\nreturn x.round()", "return g"),
    "its backward is another one": text_of(SAVING, "(x,) = ctx.saved_tensors\nreturn 3 * x * g"),
    "its backward clips": text_of(SAVING, "(x,) = ctx.saved_tensors\nreturn (2 * x * g).clamp(-1, 1)"),
    "its backward keeps less than autograd, and is faster": text_of(
        "y = x.sin().cos().sin().cos().sin().cos()\nctx.rows = len(x)\nreturn y * 0 + x", "return g"
    ),
}


@pytest.mark.parametrize("text", REJECTED.values(), ids=list(REJECTED))
def test_a_function_that_is_needed_is_kept_by_the_proof(text: str) -> None:
    size = (300, 400) if "faster" in text else (6, 5)
    assert isinstance(proved(text, torch.randn(*size)), str)
