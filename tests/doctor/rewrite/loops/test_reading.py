"""A loop of the user's becomes the loop IR: nothing is lost, and what is not understood is named."""

from __future__ import annotations

import ast
from typing import Any

import pytest
import torch
from tests.doctor.rewrite.loops.scheduled import named, outcome, read

from gradwright.doctor.rewrite.loops.ir import Nest
from gradwright.doctor.rewrite.source_text import DeclinedError

SIGNATURE = "def program(x, y, A, B, idx, lens, n, m, s, f):\n"


def given() -> dict[str, Any]:
    torch.manual_seed(0)
    return {
        "x": torch.randint(-3, 4, (6,)).double(), "y": torch.randint(-3, 4, (6,)).double(),
        "A": torch.randint(-3, 4, (6, 6)).double(), "B": torch.randint(-3, 4, (6, 6)).double(),
        "idx": torch.randint(0, 5, (6,)), "lens": [1, 2, 0, 3, 1, 2], "n": 5, "m": 4, "s": 1.0, "f": lambda v: v * 2,
    }  # fmt: skip


def function(body: str, end: str = "return x, y, A, B, s") -> str:
    lines = [f"    {line}" for line in body.strip().split("\n")]
    return SIGNATURE + "\n".join(lines) + f"\n    {end}\n"


def lines_of(nest: Nest) -> list[str]:
    """One line per statement: loops, guards, target, value."""
    found = []
    for one in nest.statements:
        loops = "".join(
            f"{loop.variable}:{ast.unparse(loop.start)}..{ast.unparse(loop.stop)}"
            f"{f'/{loop.step}' if loop.step != 1 else ''} "
            for loop in one.loops
        )
        guards = "".join(f"if {ast.unparse(guard)} " for guard in one.guards)
        indices = ", ".join(ast.unparse(index) for index in one.target.indices)
        target = f"{one.target.base}[{indices}]" if indices else one.target.base
        sign = {"assign": "=", "accumulate": f"{one.operator}=", "append": "<<", "extremum": f"best{one.operator}"}[
            one.kind
        ]
        also = "".join(f"; {place.base} = {ast.unparse(value)}" for place, value in one.also)
        found.append(f"{loops}{guards}{target} {sign} {ast.unparse(one.value)}{also}")
    return found


READ = {
    "rows": ("for row in A:\n    s += row[0]", ["i:0..len(A) s += A[i, 0]"]),
    "rows changed in place": ("for row in A:\n    row += 1", ["i:0..len(A) A[i] += 1"]),
    "zip": ("for a, b in zip(x, y):\n    s += a * b", ["i:0..min(len(x), len(y)) s += x[i] * y[i]"]),
    "enumerate": ("for k, v in enumerate(x):\n    y[k] = v", ["k:0..len(x) y[k] = x[k]"]),
    "enumerate zip": ("for k, (a, b) in enumerate(zip(A, B)):\n    y[k] = a[0] * b[k]",
        ["k:0..min(len(A), len(B)) y[k] = A[k, 0] * B[k, k]"]),
    "reversed": ("for i in reversed(range(n)):\n    y[i] = x[i]", ["i:n - 1..-1/-1 y[i] = x[i]"]),
    "steps": ("for i in range(n - 1, 0, -2):\n    y[i] = x[i]", ["i:n - 1..0/-2 y[i] = x[i]"]),
    "product": ("import itertools\nfor i, j in itertools.product(range(n), range(m)):\n    A[i, j] = B[j, i]",
        ["i:0..n j:0..m A[i, j] = B[j, i]"]),
    "while": ("i = 1\nwhile i < n:\n    y[i] = x[i]\n    i += 1", ["i_:1..n y[i_] = x[i_]"]),
    "counter": ("k = 0\nfor i in range(n):\n    y[k] = x[i]\n    k += 1", ["i:0..n y[i] = x[i]"]),
    "counter in an inner loop": (
        "for i in range(n):\n    k = 1\n"
        "    for j in range(m):\n        A[i, k] = B[i, j]\n        k += 1",
        ["i:0..n j:0..m A[i, 1 + j] = B[i, j]"]),
    "index names": ("for i in range(n):\n    k = n - 1 - i\n    y[k] = x[i]", ["i:0..n y[n - 1 - i] = x[i]"]),
    "views": ("for i in range(n):\n    row = A[i]\n    row[2] = x[i]", ["i:0..n A[i, 2] = x[i]"]),
    "ragged": (
        "for i in range(n):\n"
        "    for j in range(lens[i]):\n        y[i] += A[i][j]", ["i:0..n j:0..lens[i] y[i] += A[i, j]"]),
    "continue": ("for i in range(n):\n    if x[i] > 0:\n        continue\n    y[i] = 1",
        ["i:0..n if not x[i] > 0 y[i] = 1"]),
    "deep continue": (
        "for i in range(n):\n    if x[i] > 0:\n        if i > 1:\n"
        "            continue\n        s += 1\n    y[i] = 1",
        ["i:0..n if x[i] > 0 if not i > 1 s += 1", "i:0..n if not (x[i] > 0 and i > 1) y[i] = 1"]),
    "two arms": (
        "for i in range(n):\n    if x[i] > 0:\n        y[i] = 1\n"
        "    elif x[i] < -1:\n        y[i] = 2\n    else:\n        y[i] = 3",
        ["i:0..n y[i] = 1 if x[i] > 0 else 2 if x[i] < -1 else 3"]),
    "a test that its branch changes": ("for i in range(n):\n    if x[i] < 0:\n        x[i] = 0\n        s += 1",
        ["i:0..n mask = x[i] < 0", "i:0..n if mask x[i] = 0", "i:0..n if mask s += 1"]),
    "extremum": ("best = x[0]\nfor i in range(n):\n    if x[i] > best:\n        best = x[i]\n        s = i",
        ["i:0..n best best> x[i]; s = i"]),
    "flag": ("found = False\nfor i in range(n):\n    if x[i] > 2:\n        found = True\ns = found",
        ["i:0..n found or= x[i] > 2"]),
    "old values": (
        "for i in range(n):\n    s = s - x[i] - 1\n"
        "    y[i] = torch.maximum(y[i], x[i])\n    A[i, 0] = x[i] * A[i, 0]",
        ["i:0..n s -= x[i] + 1", "i:0..n y[i] max= x[i]", "i:0..n A[i, 0] *= x[i]"]),
    "in place": ("for i in range(n):\n    A[i].add_(B[i])\n    y[i].fill_(2)\n    B[i].copy_(x)",
        ["i:0..n A[i] += B[i]", "i:0..n y[i] = 2", "i:0..n B[i] = x"]),
    "a name for two things": (
        "for i in range(n):\n    for j in range(m):\n        t = x[j]\n"
        "        A[i, j] = t\n    for j in range(m):\n        t = y[j]\n        B[i, j] = t",
        ["i:0..n j:0..m t = x[j]", "i:0..n j:0..m A[i, j] = t",
         "i:0..n j:0..m t_2 = y[j]", "i:0..n j:0..m B[i, j] = t_2"]),
    "tuples": ("for i in range(n):\n    x[i], y[i] = y[i] + 1, x[i] + 2",
        ["i:0..n new = y[i] + 1", "i:0..n new_2 = x[i] + 2", "i:0..n x[i] = new", "i:0..n y[i] = new_2"]),
    "sums over elements": ("for i in range(n):\n    y[i] = sum(A[i, j] * x[j] for j in range(m) if j != i)",
        ["i:0..n total = 0", "i:0..n j:0..m if j != i total += A[i, j] * x[j]", "i:0..n y[i] = total"]),
}  # fmt: skip


@pytest.mark.parametrize("name", READ)
def test_loops_are_read_as_what_they_do(name: str):
    body, lines = READ[name]
    nest, _, _ = read(function(body), named(**given()))
    assert lines_of(nest) == lines


@pytest.mark.parametrize("name", READ)
def test_what_was_read_means_what_the_loop_means(name: str):
    assert outcome(function(READ[name][0]), named(**given())) in ("right", "declined")


LISTS = {
    "append": "out = []\nfor row in A:\n    out.append(row * s)\nz = torch.stack(out)",
    "append in both arms": (
        "out = []\nfor i in range(n):\n    if x[i] > 0:\n"
        "        out.append(x[i])\n    else:\n        out.append(y[i])\nz = torch.stack(out)"
    ),
    "comprehension": "z = torch.stack([f(row) for row in A])",
    "nested": "z = torch.tensor([[a * b for b in [1, 2, 3]] for a in lens])",
    "cat": "z = torch.zeros(1, 6).double()\nfor i in range(n):\n    z = torch.cat([z, (A[i] * 2).unsqueeze(0)])",
    "sum": "z = sum(x[i] * y[i] for i in range(n))",
    "max": "z = max(v * 2 for v in x)",
    "guarded": "z = torch.stack([v * 1 for v in x.unbind(0) if v < 9])",
    "list in a loop": (
        "z = []\nfor i in range(n):\n    row = []\n"
        "    for j in range(m):\n        row.append(A[i, j] * 2)\n    z.append(torch.stack(row))\nz = torch.stack(z)"
    ),
}


@pytest.mark.parametrize("name", LISTS)
def test_what_fills_a_list_is_taken_at_once_with_what_consumes_it(name: str):
    text = function(LISTS[name], "return z")
    assert outcome(text, named(**given())) == "right"


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        ("for i in range(n):\n    if x[i] > 2: break\n    y[i] = 1", "the loop is left in the middle (break)"),
        ("for i in range(n):\n    y[i] = 1\n    if x[i] > 2: return y", "the loop is left in the middle (return)"),
        ("for i in range(n):\n    assert x[i] < 9\n    y[i] = 1", "the loop may raise an exception (assert)"),
        ("for i in range(n):\n    y[i] = torch.rand(())", "the loop draws random numbers: torch.rand(())"),
        ("for i in range(n):\n    y[i] = 1\n    lens.reverse()\n", "it is not known what lens.reverse() does"),
        ("for i in range(n):\n    y[i] = lens.pop()", "a call inside an expression changes something: lens.pop()"),
        ("for i in range(n):\n    y[i] = 1\n    f(i)", "it is not known what f(i) does"),
        ("for i in range(n):\n    y[i] = 1\nelse:\n    s = 2", "a loop with else"),
        (
            "i = 0\nwhile x[i] < 5:\n    y[i] = 1\n    i += 1",
            "a while loop whose number of rounds is not known beforehand",
        ),
        ("for i in range(0, n, m):\n    y[i] = 1", "the step of range(0, n, m) is not a number written out"),
        ("for i in range(n):\n    with torch.no_grad():\n        y[i] = 1", "a with block in the loop"),
        ("for k in {1: 2}:\n    y[k] = 1", "it is not known what {1: 2} yields"),
        ("for i in range(n):\n    y[(k := i)] = 1", "an expression that does more than compute a value: (k := i)"),
    ],
    ids=str,
)
def test_what_stands_in_the_way_is_named(body: str, sentence: str):
    with pytest.raises(DeclinedError) as raised:
        read(function(body), named(**given()))
    assert str(raised.value) == sentence
