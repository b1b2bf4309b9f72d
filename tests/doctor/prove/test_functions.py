"""A plain function or method that does the same on what it was called with holds; what a caller notices does not."""

import pytest
import torch
from tests.doctor.prove.by_hand import tried_function

from gradwright.doctor.prove import Proved

SCALED = """
import torch

def f(x, w, *, eps=1e-3):
    rows = []
    for i in range(x.shape[0]):
        rows.append((x[i] * w).sum() / (w.abs().sum() + eps))
    return torch.stack(rows)
"""
SCALED_BODY = """
rows = []
for i in range(x.shape[0]):
    rows.append((x[i] * w).sum() / (w.abs().sum() + eps))
return torch.stack(rows)
"""


def scaled(code, **more):
    x, w = torch.randn(9, 4, requires_grad=True), torch.randn(4)
    return tried_function(SCALED, SCALED_BODY, code, x, w, keywords={"eps": 0.5}, **more)


def test_a_function_that_does_the_same_is_verified():
    found = scaled("return x @ w / (w.abs().sum() + eps)")
    assert isinstance(found, Proved), found
    proof = found.proof
    assert (proof.verdict, found.unsafe) == ("verified", "")
    assert proof.mutants_tried == proof.mutants_rejected >= 20
    told = "\n".join(proof.on)
    for part in ("float32 [9, 4], float32 [4]", "gradients of w", "float64", "inf", "second order", "an axis 1 long"):
        assert part in told


WRONG = {
    "a setting left out": ("return x @ w / (w.abs().sum() + 0.5)", "eps is"),
    "a gradient cut": ("return x @ w.detach() / (w.abs().sum() + eps)", "gradient of w"),
    "a list for a tensor": ("return list(x @ w / (w.abs().sum() + eps))", "the result"),
    "another shape": ("return (x @ w / (w.abs().sum() + eps))[None]", "shape"),
    "None": ("x @ w", "the result"),
    "an input changed": ("w.data.add_(0.5)\nreturn x @ w / (w.abs().sum() + eps)", "changed w in place"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_function_is_rejected_with_a_counterexample(name):
    code, word = WRONG[name]
    found = scaled(code)
    assert isinstance(found, str)
    assert word in found


def test_arguments_keep_what_is_done_to_them_and_nothing_more():
    text = "def f(x, out):\n    for i in range(len(x)):\n        out[i] = x[i] * 2\n"
    old = "for i in range(len(x)):\n    out[i] = x[i] * 2"
    x, out = torch.randn(7), torch.zeros(7)
    assert isinstance(tried_function(text, old, "out[: len(x)] = x * 2", x, out), Proved)
    found = tried_function(text, old, "out = x * 2", x, out)
    assert isinstance(found, str) and "left out as before" in found
    assert torch.equal(out, torch.zeros(7))


def test_lists_dictionaries_and_numbers_come_out_as_they_were():
    text = """
def f(scores, labels):
    hits = 0
    found = {"right": [], "total": 0.0}
    for i in range(len(labels)):
        if scores[i].argmax() == labels[i]:
            hits += 1
        found["total"] += scores[i].max().item()
    found["right"].append(hits)
    return found
"""
    old = "\n".join(text.split("\n")[2:-1])
    head = "best = scores.max(dim=1)\nhits = int((best.indices == labels[: len(best.indices)]).sum())\n"
    scores, labels = torch.randn(11, 5), torch.randint(0, 5, (11,))
    right = head + 'return {"right": [hits], "total": best.values.sum().item()}'
    old = "\n".join(line.removeprefix("    ") for line in old.split("\n"))
    assert isinstance(tried_function(text, old, right, scores, labels), Proved)
    for wrong in ('"right": [float(hits)]', '"right": hits', '"right": [hits, hits]'):
        found = tried_function(text, old, right.replace('"right": [hits]', wrong), scores, labels)
        assert isinstance(found, str) and "the result" in found


CLOSURE = """
import torch

def make(power):
    def f(x):
        y = torch.zeros_like(x)
        for i in range(len(x)):
            y[i] = x[i] ** power
        return y
    return f

class Layer(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(6))

    def forward(self, x):
        y = torch.zeros_like(x)
        for i in range(len(x)):
            y[i] = x[i] * self.weight[i]
        return y
"""


def test_what_a_function_closes_over_keeps_its_value():
    old = "y = torch.zeros_like(x)\nfor i in range(len(x)):\n    y[i] = x[i] ** power\nreturn y"
    x = torch.randn(9)
    assert isinstance(tried_function(CLOSURE, old, "return x ** power", x, get="make(3)"), Proved)
    assert isinstance(tried_function(CLOSURE, old, "return x ** 2", x, get="make(3)"), str)


def test_a_method_is_tried_with_its_object():
    old = "y = torch.zeros_like(x)\nfor i in range(len(x)):\n    y[i] = x[i] * self.weight[i]\nreturn y"
    namespace = {}
    exec(CLOSURE, namespace)
    layer = namespace["Layer"]()
    args = layer, torch.randn(6)
    right = "return x * self.weight[: len(x)]"
    found = tried_function(CLOSURE, old, right, *args, get="Layer.forward", function="forward")
    assert isinstance(found, Proved), found
    assert any("gradients of self.weight, x" in line for line in found.proof.on)
    wrong = tried_function(CLOSURE, old, right + ".detach()", *args, get="Layer.forward", function="forward")
    assert isinstance(wrong, str) and "self.weight" in wrong


NORM = """
import torch

def f(x):
    total = (x * x).sum(dim=1)
    return total.sqrt().sum()
"""


def test_a_gradient_that_becomes_finite_is_verified_without_being_faster():
    safe = "    ok = total > 0\n    return (ok * (total + ~ok).sqrt()).sum()".replace("    ", "")
    x = torch.randn(6, 3)
    x[2] = 0
    old = "return total.sqrt().sum()"
    found = tried_function(NORM, old, safe, x.requires_grad_(), expect="finite")
    assert isinstance(found, Proved), found
    assert found.proof.verdict == "verified"
    nothing = tried_function(NORM, old, "return torch.sqrt(total).sum()", x, expect="finite")
    assert isinstance(nothing, str) and "still NaN" in nothing
    other = tried_function(NORM, old, safe.replace("sqrt()", "sqrt() * 1.01"), x, expect="finite")
    assert isinstance(other, str) and "returned" in other


def test_random_numbers_come_in_the_same_order():
    text = """
import torch

def f(x):
    y = torch.zeros_like(x)
    for i in range(len(x)):
        y[i] = x[i] * torch.rand(())
    return y
"""
    old = "\n".join(line.removeprefix("    ") for line in text.split("\n")[4:8])
    found = tried_function(text, old, "return x * torch.rand(len(x)).flip(0)", torch.randn(8))
    assert isinstance(found, str)


def test_a_dtype_that_the_run_did_not_use_makes_it_unsafe():
    text = """
import torch

def f(x):
    y = torch.zeros(len(x))
    for i in range(len(x)):
        y[i] = x[i] * x[i]
    return y
"""
    old = "\n".join(line.removeprefix("    ") for line in text.split("\n")[4:8])
    found = tried_function(text, old, "return x * x", torch.randn(8))
    assert isinstance(found, Proved)
    assert "float64" in found.unsafe and found.proof.verdict == "verified"


def test_what_a_rewrite_calls_unsafe_stays_so():
    found = scaled("return x @ w / (w.abs().sum() + eps)", unsafe="where w is inf it is NaN")
    assert isinstance(found, Proved) and found.unsafe == "where w is inf it is NaN"


def test_an_object_that_cannot_be_copied_leaves_nothing_to_try():
    class Locked:
        def __init__(self):
            self.rows = (row for row in range(3))

    text = "def f(x, state):\n    return x * 2\n"
    found = tried_function(text, "return x * 2", "return x + x", torch.randn(3), Locked())
    assert isinstance(found, str) and "Locked can't be copied" in found


def test_what_runs_later_is_not_tried():
    text = "def f(x):\n    for row in x:\n        yield row * 2\n"
    found = tried_function(text, "for row in x:\n    yield row * 2", "yield from x * 2", torch.randn(3, 2))
    assert isinstance(found, str) and "runs later" in found


APART = """
import torch

def f(x):
    d = x[:, None] - x[None]
    total = (d**2).sum(-1)
    return torch.sqrt(total).sum()
"""


@pytest.mark.parametrize(("factor", "proved"), [("1", True), ("1.01", False)])
def test_where_no_gradient_was_ever_finite_the_values_say_what_it_is(factor, proved):
    safe = "far = total > 0\nreturn torch.where(far, torch.sqrt(torch.where(far, total, 1)), 0).sum()"
    wrong = f" + ({factor} - 1) * (x - x.detach()).sum()"
    x = torch.randn(5, 3, requires_grad=True)
    found = tried_function(APART, "return torch.sqrt(total).sum()", safe + wrong * (not proved), x, expect="finite")
    assert isinstance(found, Proved) == proved, found
