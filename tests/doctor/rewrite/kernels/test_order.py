"""A loop over columns goes inside where no column meets another; the values stay what they were, to the bit."""

import ast
import random
import textwrap
from typing import Any

import numpy as np
import pytest
import torch

from gradwright.doctor.rewrite.kernels.element_types import UnknownTypeError, types_of
from gradwright.doctor.rewrite.kernels.order import Nest, by_rows

RANKS = {"x": 2, "out": 2, "w": 1, "last": 1, "cube": 3, "other": 2}
NEST = Nest(RANKS, frozenset(RANKS) - {"x", "other"}, dict.fromkeys(RANKS, "x.dtype"), lambda stop: 5)


def turned(text, nest=NEST, returned=()):
    body = ast.parse(textwrap.dedent(text)).body
    return ast.unparse(ast.fix_missing_locations(ast.Module(by_rows(body, nest, frozenset(returned)), [])))


def unparsed(text):
    return ast.unparse(ast.parse(textwrap.dedent(text)))


AVERAGE = """
for j in range(x.shape[1]):
    carry = 0.0
    for t in range(x.shape[0] - 1, 0, -1):
        carry = x[t, j] + carry
        step = carry * 0.5
        out[t, j] = step
        carry = carry - step
    out[0, j] = x[0, j] + carry
"""


def test_a_number_of_every_column_gets_a_row_and_one_of_every_step_does_not():
    assert turned(AVERAGE) == unparsed(
        """
        carry = np.empty(x.shape[1], np.float64)
        for j in range(x.shape[1]):
            carry[j] = 0.0
        for t in range(x.shape[0] - 1, 0, -1):
            for j in range(x.shape[1]):
                carry[j] = x[t, j] + carry[j]
                step = carry[j] * 0.5
                out[t, j] = step
                carry[j] = carry[j] - step
        for j in range(x.shape[1]):
            out[0, j] = x[0, j] + carry[j]
        """
    )


TURNED = {
    "no number at all": "for j in range(n):\n  for t in range(1, m): out[t, j] = out[t - 1, j] + x[t, j]",
    "in every matrix of a batch": (
        "for b in range(n):\n  for j in range(m):\n    for t in range(1, m): cube[b, t, j] = cube[b, t - 1, j] + 1"
    ),
    "two loops, one after the other": (
        "for j in range(n):\n  s = x[0, j]\n  for t in range(m): s = s + x[t, j]\n  for t in range(m): out[t, j] = s"
    ),
    "a sum of products": (
        "for i in range(n):\n  for j in range(n):\n    s = 0.0\n    for k in range(n): s += x[i, k] * other[k, j]\n"
        "    out[i, j] = s"
    ),
    "a test inside": (
        "for j in range(n):\n  s = 0.0\n  for t in range(m):\n    if x[t, j] > s: s = x[t, j]\n    out[t, j] = s"
    ),
}

LEFT = {
    "a column that reads its neighbour": "for j in range(n):\n  for t in range(m): out[t, j] = out[t, j - 1] + x[t, j]",
    "a number that goes from column to column": (
        "s = 0.0\nfor j in range(n):\n  for t in range(m):\n    s = s + x[t, j]\n    out[t, j] = s"
    ),
    "a number that is only sometimes set": (
        "for j in range(n):\n  if x[0, j] > 0: s = 0.0\n  for t in range(m):\n    s = s + x[t, j]\n    out[t, j] = s"
    ),
    "a number that is set in a loop that may not run": (
        "for j in range(n):\n  for t in range(m): s = x[t, j]\n  out[0, j] = s"
    ),
    "a number that is changed before it is set": "for j in range(n):\n  s += 1.0\n  for t in range(m): out[t, j] = s",
    "a number read behind the loop": AVERAGE + "last[0] = carry",
    "a counter read behind the loop": AVERAGE + "last[0] = t",
    "an end that hangs on the column": "for j in range(n):\n  for t in range(j): out[t, j] = out[t - 1, j] + x[t, j]",
    "an end that the column sets": "for j in range(n):\n  k = int(x[0, j])\n  for t in range(k): out[t, j] = x[t, j]",
    "a way out": "for j in range(n):\n  for t in range(m):\n    if x[t, j] > 0: break\n    out[t, j] = x[t, j]",
    "an error raised": "for j in range(n):\n  for t in range(m):\n    if x[t, j] > 0: raise\n    out[t, j] = 1.0",
    "what may share memory": "for j in range(n):\n  for t in range(m): other[t, j] = x[t, j]",
    "rows already": "for i in range(n):\n  for t in range(1, m): out[i, t] = out[i, t - 1] + x[i, t]",
    "rows as much as columns": "for i in range(n):\n  for t in range(m): out[t, i] = x[i, t]",
    "one place for all columns": "for j in range(n):\n  for t in range(m): last[t] = last[t] + x[t, j]",
    "a view": "for j in range(n):\n  row = out[j]\n  for t in range(m): out[t, j] = row[t]",
    "an array as a whole": "for j in range(n):\n  for t in range(m): out[t, j] = f(out)[t, j]",
    "a column that begins below zero": "for j in range(-2, n):\n  for t in range(m): out[t, j] = x[t, j]",
    "a start that is not written": "for j in range(k, n):\n  for t in range(m): out[t, j] = x[t, j]",
    "a column that is changed": "for j in range(n):\n  j += 1\n  for t in range(m): out[t, j] = x[t, j]",
    "two types in one number": AVERAGE.replace("0.0", "w[0] if flag else True"),
}  # fmt: skip


@pytest.mark.parametrize("name", TURNED)
def test_columns_are_taken_row_by_row(name):
    assert turned(TURNED[name]) != unparsed(TURNED[name])


@pytest.mark.parametrize("name", LEFT)
def test_what_can_not_be_turned_is_left(name):
    assert turned(LEFT[name]) == unparsed(LEFT[name])


def test_what_is_returned_and_what_has_few_columns_is_left():
    assert turned(AVERAGE, returned=["carry"]) == turned(AVERAGE, returned=["t"]) == unparsed(AVERAGE)
    assert turned(AVERAGE, Nest(RANKS, NEST.own, NEST.types, lambda stop: 2)) == unparsed(AVERAGE)


def test_a_number_gets_the_type_that_numba_gives_it():
    text = "a = 0; b = 0.0; c = x[i]; d = 1; e = x[i] > 0\nfor i in range(3): b = b + c; d = d + x[i]; c = max(c, x[i])"
    types = types_of(ast.parse(text).body, {"x": "x.dtype", "i": "np.int64"})
    assert [types[one] for one in "abcde"] == ["np.int64", "np.float64", "x.dtype", "np.float64", "np.bool_"]
    with pytest.raises(UnknownTypeError):
        types_of(ast.parse("s = x[0] + y[0]").body, {"x": "x.dtype", "y": "y.dtype"})


# --- random loops over columns ---------------------------------------------------------------------------------------

_READS = [
    "x[{t}, j]",
    "out[{t}, j]",
    "out[{t} - 1, j]",
    "w[{t}]",
    "last[j]",
    "s",
    "r",
    "x[0, j]",
    "0.3",
    "out[{t}, j - 1]",
]
_STORES = ["out[{t}, j]", "last[j]", "s", "r", "s", "r", "out[{t}, 0]"]


class Drawn:
    def __init__(self, seed):
        self.random = random.Random(seed)

    def line(self, t):
        one, other = (self.random.choice(_READS[: 9 + (self.random.random() < 0.03)]).format(t=t) for _ in range(2))
        place = self.random.choice(_STORES[: 6 + (self.random.random() < 0.03)]).format(t=t)
        op = self.random.choice(["=", "=", "+="])
        test = f"if {other} > 0: " if self.random.random() < 0.2 else ""
        return f"{test}{place} {op} {one} {self.random.choice('+-*')} {other}"

    def text(self):
        lines = ["s = 0.0", "r = x[0, j]"]
        for _ in range(self.random.choice([1, 1, 2])):
            lines += [self.line("0") for _ in range(self.random.choice([0, 1]))]
            over = self.random.choice(["1, x.shape[0]", "x.shape[0]", "x.shape[0] - 1, 0, -1"])
            lines += [
                f"for t in range({over}):",
                *(f"  {self.line('t')}" for _ in range(self.random.choice([1, 2, 3]))),
            ]
        lines += [self.line("0") for _ in range(self.random.choice([0, 1]))]
        return "\n".join(["for j in range(x.shape[1]):", *(f"  {line}" for line in lines)])


def test_turned_loops_give_the_same_to_the_bit():
    changed = 0
    for seed in range(150):
        text = Drawn(seed).text()
        new = turned(text)
        if new == ast.unparse(ast.parse(text)):
            continue
        changed += 1
        for rows, columns in ((4, 5), (1, 4), (3, 0), (2, 1)):
            found = []
            for source in (text, new):
                made = np.random.default_rng(seed)
                sizes: list[Any] = [(rows, columns), rows, columns]
                names = {one: made.normal(size=sizes[kind]) for one, kind in
                         (("x", 0), ("out", 0), ("w", 1), ("last", 2))}  # fmt: skip
                with np.errstate(all="ignore"):
                    exec(compile(source, "drawn", "exec"), {"np": np}, names)
                found.append((names["out"], names["last"]))
            for one, other in zip(*found, strict=True):
                assert np.array_equal(one, other, equal_nan=True), f"{text}\n{new}"
    assert changed > 25


# --- whole Functions -------------------------------------------------------------------------------------------------


def test_the_moving_average_of_columns_does_what_it_did(bench):
    body = """
        y = torch.zeros_like(x)
        for j in range(x.shape[1]):
            s = x[0, j]
            for t in range(x.shape[0]):
                s = alpha * x[t, j] + (1 - alpha) * s
                y[t, j] = s
        return y
        """
    torch.manual_seed(0)
    matrix = torch.randn(7, 5)
    original, candidate, proposal = bench.compiled(bench.forward(body, "x, alpha"), [matrix, 0.3])
    assert "for t in range(x.shape[0]):\n        for j in range(x.shape[1]):\n            s[j] =" in proposal.added
    assert "boundscheck" not in proposal.added
    for argument in (
        matrix,
        matrix[:1],
        matrix[:0],
        matrix[:, :1],
        matrix[:, :0],
        matrix.mT,
        matrix / 0,
        matrix.double(),
    ):
        assert bench.difference(original, candidate, [argument, 0.3]) == ""
    assert bench.difference(original, candidate, [matrix, 1]) == ""


def test_what_shares_memory_in_the_run_is_not_turned(bench):
    body = """
        y = torch.zeros_like(x)
        z = y[:, 1:]
        for j in range(z.shape[1]):
            for t in range(1, x.shape[0]):
                y[t, j] = y[t - 1, j] + z[t, j] + x[t, j]
        return y
        """
    matrix = torch.ones(4, 6)
    original, candidate, proposal = bench.compiled(bench.forward(body), [matrix])
    assert proposal.added.index("for j") < proposal.added.index("for t")
    assert bench.difference(original, candidate, [matrix]) == ""
