"""Two fixes are made together only where neither can see the other."""

from __future__ import annotations

import itertools
from random import Random

import numpy as np
import pytest

from gradwright.doctor.mending.together import change_of, share_code, why_not_together
from gradwright.doctor.session.hunks import edits_of, unified

TEXT = """\
import torch


class Slow(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, y):
        ctx.save_for_backward(x, y)
        out = torch.empty_like(x)
        for i in range(len(x)):
            out[i] = x[i] * 2
        scaled = torch.empty_like(out)
        for i in range(len(out)):
            scaled[i] = out[i] + 1
        return scaled

    @staticmethod
    def backward(ctx, grad_output):
        x, y = ctx.saved_tensors
        grad = grad_output.clone()
        grad_x = torch.empty_like(x)
        for i in range(len(x)):
            grad_x[i] = 2 * grad[i]
        return grad_x, None


def norm(x):
    total = 0.0
    for i in range(len(x)):
        total = total + x[i] ** 2
    return torch.sqrt(total)
"""
LOOP = """\
        out = torch.empty_like(x)
        for i in range(len(x)):
            out[i] = x[i] * 2
"""
SECOND = """\
        scaled = torch.empty_like(out)
        for i in range(len(out)):
            scaled[i] = out[i] + 1
"""
BACKWARD = """\
        grad_x = torch.empty_like(x)
        for i in range(len(x)):
            grad_x[i] = 2 * grad[i]
"""
NORM = """\
    total = 0.0
    for i in range(len(x)):
        total = total + x[i] ** 2
"""
NUMBA = ("import torch\n", "import numba\nimport torch\n")

vectorised = (LOOP, "        out = x * 2\n")
saves_less = [("save_for_backward(x, y)", "save_for_backward(x)"), ("x, y = ctx", "(x,) = ctx")]
no_clone = ("grad_output.clone()", "grad_output")
second = (SECOND, "        scaled = out + 1\n")
backward = (BACKWARD, "        grad_x = 2 * grad\n")


def change(*replacements: tuple[str, str]):
    new = TEXT
    for before, after in replacements:
        assert before in new
        new = new.replace(before, after, 1)
    lines = TEXT.splitlines(keepends=True)
    return change_of(edits_of("".join(unified("a.py", lines, new.splitlines(keepends=True))), lines), lines)


def kernel(name: str, body: str) -> tuple[str, str]:
    return "import torch\n", f"import torch\n\n\ndef {name}(x):\n    return {body}\n"


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ([vectorised], [backward]),
        ([vectorised], [second]),
        ([vectorised], [(NORM, "    total = (x**2).sum()\n")]),
        ([vectorised], [vectorised]),
        ([NUMBA, vectorised], [NUMBA, backward]),
        ([kernel("_one", "x"), vectorised], [kernel("_two", "x * 1"), backward]),
        ([vectorised], saves_less),
        ([second], [(LOOP, "        out = x + x\n        out = out * 1\n")]),
    ],
    ids=[
        "forward and backward",
        "one loop after the other",
        "two functions",
        "the same twice",
        "the same import",
        "two kernels",
        "what is saved, and a loop that does not look",
        "a name of one that the other has always read",
    ],
)
def test_fixes_that_do_not_see_one_another_are_made_together(one, other):
    first, then = change(*one), change(*other)
    assert why_not_together(first, then) == why_not_together(then, first) == ""


@pytest.mark.parametrize(
    ("one", "other", "word"),
    [
        ([vectorised], [(LOOP, "        out = x + x\n")], "same lines"),
        ([vectorised], [("            out[i] = x[i] * 2\n", "            out[i] = 2 * x[i]\n")], "same lines"),
        ([vectorised], [("            out[i] = x[i]", "            n = 1\n            out[i] = x[i]")], "same lines"),
        ([no_clone], [(BACKWARD, "        grad_x = grad.mul_(2)\n")], "shares memory"),
        ([no_clone], [(BACKWARD, "        grad *= 2\n        grad_x = grad\n")], "shares memory"),
        (
            [no_clone],
            [(BACKWARD, "        flat = grad.view(-1)\n        flat += flat\n        grad_x = grad\n")],
            "shares memory",
        ),
        ([no_clone],
         [(BACKWARD, "        grad_x = torch.mul(grad, 2, out=grad)\n")], "shares memory"),
        ([vectorised], [("        return scaled\n", "        return out.add(1)\n")], "out in Slow.forward"),
        ([kernel("_kernel", "x"), vectorised], [kernel("_kernel", "x * 1"), backward], "_kernel"),
        (
            saves_less,
            [(BACKWARD, "        grad_x = 2 * grad * ctx.needs_input_grad[0]\n")],
            "keeps",
        ),
        (
            saves_less,
            [(BACKWARD, "        grad_x = 2 * grad + 0 * y\n")],
            "y in Slow.backward",
        ),
    ],
    ids=[
        "other text for the loop", "a line of it", "a line put into it", "a copy that the other changes in place",
        "augmented", "in place through a view", "out=", "newly read", "two kernels of one name", "through ctx",
        "no longer there",
    ],
)  # fmt: skip
def test_fixes_that_may_see_one_another_are_not(one, other, word):
    first, then = change(*one), change(*other)
    assert word in why_not_together(first, then)
    assert why_not_together(then, first) != ""


def test_two_fixes_of_one_class_or_function_are_known_to_share_it():
    assert share_code(change(vectorised), change(backward))
    assert not share_code(change(vectorised), change((NORM, "    total = (x**2).sum()\n")))


def test_what_is_no_python_afterwards_is_no_change():
    with pytest.raises(SyntaxError):
        change((LOOP, "        out = (\n"))


# --- random functions, whose statements have other forms that mean the same there ------------------------------------

FORMS = (
    ("{t} = {s}.copy()", "{t} = {s}"),
    ("{t} = {s}[::-1].copy()", "{t} = {s}[::-1]", "{t} = np.flip({s})"),
    ("{t} = {s} * 2", "{s} *= 2\n    {t} = {s}", "{t} = {s} + {s}", "{t} = np.multiply({s}, 2, out={s})"),
    ("{t} = {s} + {u}", "{t} = {u} + {s}", "{s} += {u}\n    {t} = {s}", "{t} = np.add({s}, {u}, out={u})"),
    ("{s} += 1", "{s} = {s} + 1", "{s} = 1 + {s}"),
    ("{t} = {s} - {s}.mean()", "mean = {s}.mean()\n    {t} = {s} - mean", "{t} = {s}\n    {t} -= {s}.mean()"),
)


def drawn(random: Random) -> list[tuple[str, ...]]:
    """The statements of a function of ``x``, each with its forms, the first being the one in the text."""
    names, body = ["x"], []
    for _ in range(random.randint(2, 5)):
        forms = random.choice(FORMS)
        s, u = random.choice(names), random.choice(names)
        t = random.choice([*names[1:], f"v{len(names)}"])
        body.append(tuple(form.format(s=s, t=t, u=u) for form in forms))
        if "{t}" in forms[0] and t not in names:
            names.append(t)
    body.append((f"return {random.choice(names)}",))
    return body


def text_of(body: list[tuple[str, ...]], chosen: dict[int, int]) -> list[str]:
    text = "def f(x):\n" + "".join(f"    {forms[chosen.get(at, 0)]}\n" for at, forms in enumerate(body))
    return text.splitlines(keepends=True)


def outcome(lines: list[str]) -> list[list[float]]:
    """What it returns, and what it makes of its input."""
    names: dict = {"np": np}
    exec("".join(lines), names)
    x = np.array([1.0, 2.0, 4.0, 8.0])
    made = names["f"](x)
    seen = [made.tolist(), x.tolist()]
    made += 100  # the caller's business, unless it is the caller's x too
    return [*seen, x.tolist()]


def test_no_two_changes_that_are_made_together_change_what_a_function_does():
    random = Random(0)
    accepted = rightly_refused = 0
    for _ in range(300):
        body = drawn(random)
        base = text_of(body, {})
        wanted = outcome(base)
        alone = [
            (at, form)
            for at, forms in enumerate(body)
            for form in range(1, len(forms))
            if forms[form] != forms[0] and outcome(text_of(body, {at: form})) == wanted
        ]
        changes = {
            chosen: change_of(edits_of("".join(unified("f.py", base, text_of(body, dict([chosen])))), base), base)
            for chosen in alone
        }
        for one, other in itertools.combinations(alone, 2):
            if one[0] == other[0]:
                continue
            same = outcome(text_of(body, dict([one, other]))) == wanted
            if why_not_together(changes[one], changes[other]):
                rightly_refused += not same
            else:
                accepted += 1
                assert same, "".join(text_of(body, {})) + "".join(text_of(body, dict([one, other])))
    assert accepted > 100 and rightly_refused > 20, (accepted, rightly_refused)
