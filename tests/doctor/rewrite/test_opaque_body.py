"""A loop over rows with an opaque body becomes torch.vmap of it, where that is the same; else it is declined."""

import ast
import textwrap
import types

import pytest
import torch

from gradwright.doctor.probe.seeing import see_in_call
from gradwright.doctor.rewrite.opaque_body import vmap_body
from gradwright.doctor.rewrite.source_text import DeclinedError, SourceText
from gradwright.doctor.source.files import parse
from gradwright.doctor.source.loops import find_loops

PATH = "opaque_under_test.py"
HEAD = """import random
import torch
import torch.nn as nn
import torch.nn.functional as F

log = []
torch.manual_seed(0)
net = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))


class Cell(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(3, 2)

    def forward(self, row):
        return torch.relu(self.inner(row))


class Loud(nn.Module):
    def forward(self, row):
        log.append(row.sum())
        return row * 2


cell, loud = Cell(), Loud()


def energy(row, weight):
    centred = row - row.mean()
    return (centred * weight).tanh().sum()


def choosy(row):
    if row.sum() > 0:
        return row
    return -row


def noisy(row):
    return row + torch.randn_like(row)


def shaky(row):
    return row * random.random()


"""


def whole(body, signature="x, w"):
    return f"{HEAD}def f({signature}):\n" + textwrap.indent(textwrap.dedent(body).strip("\n"), "    ") + "\n"


def loaded(text):
    module = types.ModuleType("script")
    exec(compile(text, PATH, "exec"), vars(module))
    return module


def arguments(rows=4, seed=1):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(rows, 3, generator=generator), torch.randn(3, generator=generator)


def proposed(text):
    module, tree = loaded(text), ast.parse(text)
    (site,) = [site for site in find_loops(parse(text.encode(), PATH)) if site.function == "f"]
    (function,) = [node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == "f"]
    (at,) = [at for at, node in enumerate(function.body) if node.lineno == site.line]
    region = function.body[at : at + 1 + site.tail]
    seen = see_in_call(region, tree, PATH, vars(module), lambda: module.f(*arguments()))
    (proposal,) = vmap_body(SourceText(PATH, text), site, seen)
    return proposal


def difference(text, new_text, rows):
    """Outputs and gradients of both, as one number; None where both raise."""
    results = []
    for one in (text, new_text):
        x, w = (value.requires_grad_() for value in arguments(rows))
        try:
            out = loaded(one).f(x, w)
        except (RuntimeError, IndexError):
            results.append(None)
            continue
        gradients = torch.autograd.grad(out.square().sum(), [x, w], allow_unused=True) if out.requires_grad else ()
        results.append([out, *gradients])
    if results[0] is None or results[1] is None:
        return 0.0 if results[0] is results[1] or results[0] is None else float("inf")
    worst = 0.0
    for a, b in zip(*results, strict=False):
        if (a is None) != (b is None) or (a is not None and a.shape != b.shape):
            return float("inf")
        worst = max(worst, float((a - b).detach().abs().max()) if a is not None and a.numel() else 0.0)
    return worst


# name -> (the function's body, lines that stand in the new one)
TAKEN = {
    "a module on every row": (
        """
        out = []
        for b in range(x.shape[0]):  # every row
            out.append(net(x[b]))
        return torch.stack(out)
        """,
        "    # every row\n    return torch.vmap(net)(x)\n",
    ),
    "rows themselves, a class of the file": (
        """
        out = []
        for row in x:
            out.append(cell(row))
        y = torch.stack(out, dim=1)
        return y * 2
        """,
        "    y = torch.vmap(cell, out_dims=1)(x)\n    return y * 2\n",
    ),
    "an argument that is the same for all": (
        """
        out = []
        for b in range(len(x)):
            out.append(energy(x[b], w))
        return torch.stack(out)
        """,
        "    return torch.vmap(energy, in_dims=(0, None))(x, w)\n",
    ),
    "several statements, with a comment": (
        """
        out = []
        for b in range(len(x)):
            # in the frame of the row
            h = net(x[b])
            scale, shift = w.sum(), x[b, 0]
            out.append(h * scale + shift)  # kept
        return torch.stack(out)
        """,
        "    def each_row(row):\n"
        "        # in the frame of the row\n"
        "        h = net(row)\n"
        "        scale, shift = w.sum(), row[0]\n"
        "        return h * scale + shift  # kept\n"
        "    return torch.vmap(each_row)(x)\n",
    ),
    "stored as rows of a tensor": (
        """
        n, m = x.shape
        out = torch.zeros(n, 2)
        for b in range(n):
            out[b] = net(x[b])
        return out
        """,
        "        out[:] = torch.vmap(net)(x)\n".replace("        ", "    "),
    ),
    "two tensors at once": (
        """
        z = x.flip(0)
        out = []
        for a, b in zip(x, z):
            out.append(energy(a, b))
        return torch.stack(out)
        """,
        "    return torch.vmap(energy)(x, z)\n",
    ),
    "a part of the rows": (
        """
        z = x * 2
        out = []
        for b in range(1, len(z)):
            out.append(cell(x[b]) + cell(z[b]))
        return torch.stack(out)
        """,
        "    return torch.vmap(each_row)(x[1:len(z)], z[1:len(z)])\n",
    ),
}

# name -> (the function's body, a piece of the reason)
DECLINED = {
    "random numbers": (
        "out = []\nfor b in range(len(x)):\n    out.append(noisy(x[b]))\nreturn torch.stack(out)",
        "random",
    ),
    "Python's random numbers": (
        "out = []\nfor b in range(len(x)):\n    out.append(shaky(x[b]))\nreturn torch.stack(out)",
        "random",
    ),
    "dropout": (
        "out = []\nfor b in range(len(x)):\n    out.append(F.dropout(x[b], 0.5))\nreturn torch.stack(out)",
        "random",
    ),
    "a branch on values": (
        "out = []\nfor b in range(len(x)):\n    out.append(choosy(x[b]))\nreturn torch.stack(out)",
        "choosy branches on values",
    ),
    "a module that keeps a log": (
        "out = []\nfor b in range(len(x)):\n    out.append(loud(x[b]))\nreturn torch.stack(out)",
        "it changes things in place (append)",
    ),
    "a state carried on": (
        "h = w\nout = []\nfor b in range(len(x)):\n    h = x[b] + h\n    out.append(h)\nreturn torch.stack(out)",
        "h is carried from row to row",
    ),
    "the number of the row": (
        "out = []\nfor b in range(len(x)):\n    out.append(net(x[b]) * b)\nreturn torch.stack(out)",
        "the number of the row, b, is computed with",
    ),
    "a list that is read twice": (
        "out = []\nfor b in range(len(x)):\n    out.append(net(x[b]))\nreturn torch.stack(out) + len(out)",
        "more becomes of the list out",
    ),
    "numbers taken out": (
        "out = []\nfor b in range(len(x)):\n    out.append(net(x[b]) * x[b].sum().item())\nreturn torch.stack(out)",
        "it takes numbers out of tensors (item)",
    ),
    "the last row read later": (
        "out = []\nfor b in range(len(x)):\n    h = net(x[b])\n    out.append(h)\nreturn torch.stack(out) + h",
        "h is read after the loop",
    ),
    "a neighbour": (
        "out = []\nfor b in range(1, len(x)):\n    out.append(net(x[b] - x[b - 1]))\nreturn torch.stack(out)",
        "the number of the row, b, is computed with",
    ),
}


@pytest.mark.parametrize("name", TAKEN)
def test_the_loop_becomes_one_call_that_does_the_same(name):
    body, lines = TAKEN[name]
    text = whole(body)
    proposal = proposed(text)
    assert lines in proposal.new_text
    assert "out = []" not in proposal.new_text
    for rows in (4, 1, 0, 7):
        assert difference(text, proposal.new_text, rows) < 1e-5


@pytest.mark.parametrize("name", DECLINED)
def test_what_vmap_would_change_is_declined_with_its_reason(name):
    body, reason = DECLINED[name]
    with pytest.raises(DeclinedError) as raised:
        proposed(whole(body))
    assert reason in str(raised.value)


def test_a_faulty_body_is_seen_by_the_same_comparison():
    text = whole(TAKEN["several statements, with a comment"][0])
    new = proposed(text).new_text
    for right, wrong in (("row[0]", "row[1]"), ("h * scale", "h"), ("vmap(each_row)(x)", "vmap(each_row)(x.flip(0))")):
        assert right in new
        assert difference(text, new.replace(right, wrong), 4) > 1e-3


def test_the_region_is_the_loop_and_the_stack_behind_it():
    text = whole(TAKEN["several statements, with a comment"][0])
    proposal = proposed(text)
    old, new = text.split("\n"), proposal.new_text.split("\n")
    assert old[proposal.replaced[0] - 1].startswith("    for b in") and "torch.stack" in old[proposal.replaced[1] - 1]
    assert new[proposal.region[0] - 1].startswith("    def each_row") and "vmap" in new[proposal.region[1] - 1]
