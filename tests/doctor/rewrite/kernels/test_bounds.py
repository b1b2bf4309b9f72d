"""A kernel goes without checks where no index can leave its axis, at the sizes that are asked; and only there."""

import ast
import itertools
import random
import textwrap

import numpy as np
import pytest
import torch

from gradwright.doctor.rewrite.kernels.bounds import conditions_for
from gradwright.doctor.rewrite.loops.terms import Term

x = torch.tensor([0.5, -1.0, 2.0, 0.25, -3.0, 1.0])


def asked(body, sizes, numbers=()):
    """``sizes``: the shape of every array in the run; ``numbers``: the integers."""
    known, seen = {}, dict(numbers)
    for array, shape in sizes.items():
        known[array] = tuple(Term(((f"{array}.shape[{axis}]", 1),)) for axis in range(len(shape)))
        seen |= {f"{array}.shape[{axis}]": size for axis, size in enumerate(shape)}
    facts = [one for shape in known.values() for one in shape]
    known |= {name: Term(((name, 1),)) for name in dict(numbers)}
    return conditions_for(ast.parse(textwrap.dedent(body)).body, known, facts, seen)


# what the kernel does -> what must be asked; None: it keeps its checks
PROVED = {
    "for t in range(1, x.shape[0]): y[t] = x[t] + y[t - 1]": ["y.shape[0] >= x.shape[0]"],
    "for t in range(x.shape[0] - 2, -1, -1): x[t] = x[t + 1]": [],
    "for t in range(x.shape[0]): x[t] = x[t - 1]": [],
    "for t in range(0, x.shape[0], 2): x[t] = 1.0": [],
    "for t in range(x.shape[0]):\n  if t > 0: x[t] = x[t - 1]\n  if t < x.shape[0] - 1: x[t] += x[t + 1]": [],
    "for t in range(x.shape[0]):\n  if t < 2: continue\n  x[t] = x[t - 2]": [],
    "for t in range(x.shape[0]): x[t] = 0.0 if t == 0 else x[t - 1]": [],
    "for t in range(n):\n  if t < x.shape[0] and x[t] > 0: x[t] = 1.0": [],
    "for t in range(n): x[t] = 1.0": ["x.shape[0] >= n"],
    "for t in range(x.shape[0]):\n  for k in range(t + 1): x[t] += x[k] * x[t - k]": [],
    "for t in range(x.shape[0] // 2): x[2 * t + 1] = x[2 * t]": [],
    "for t in range(y.shape[0]): x[t % 3] = y[t]": ["x.shape[0] >= 3"],
    "while n > 0:\n  n -= 1\n  x[n] = 0.0": ["x.shape[0] >= n"],
    "rows = np.empty(max(n, 0), x.dtype)\ncount = 0\nfor t in range(n):\n  rows[count] = 1.0\n  count += 1": [],
    "for t in range(x.shape[0]):\n  part = x[:t]\n  for k in range(part.shape[0]): part[k] = x[k]": [],
    "h = np.empty(n)\nfor t in range(3):\n  g = np.empty(n)\n  h = g\n  for k in range(n): h[k] = 1.0": [],
    "best = x[0]": ["x.shape[0] > 0"],
    "for t in range(x.shape[0] + 1): x[t] = 1.0": None,
    "for t in range(x.shape[0]): x[t + 1] = 1.0": None,
    "for t in range(x.shape[0], -1, -1): x[t] = 1.0": None,
    "for t in range(x.shape[0]): x[t - 2] = 1.0": None,
    "for t in range(x.shape[0]):\n  if t > 0: x[t + 1] = 1.0": None,
    "for t in range(x.shape[0]):\n  if t > 0 or t < 0: x[t] = 1.0\n  else: x[t - 1] = x[1]": ["x.shape[0] >= 2"],
    "for t in range(n + 2):\n  if t < x.shape[0] or x[t] > 0: x[t] = 1.0": None,
    "for t in range(n + 2):\n  if x[t] > 0 and t < x.shape[0]: x[t] = 1.0": None,
    "for t in range(x.shape[0]):\n  k = t + 1\n  if k < x.shape[0]: k += 1\n  x[k - 1] = 1.0": None,
    "k = 0\nfor t in range(x.shape[0]):\n  x[k] = 1.0\n  k += 2": None,
    "k = 0\nfor t in range(x.shape[0]):\n  x[k] = 1.0\n  for s in range(2): k += 1": None,
    "k = 0\nfor t in range(x.shape[0]):\n  x[k] = 1.0\n  if x[t] > 0: k = 7": None,
    "k = 0\nwhile k < 9:\n  x[k] = 1.0\n  k += 1": None,
    "for t in range(x.shape[0]): x[int(x[t])] = 1.0": None,
    "for t in range(0, x.shape[0], n): x[t] = 1.0": None,
    "for t in range(x.shape[0]): part = x[t:]\npart[0] = 1.0": None,
    "for t in range(x.shape[0]):\n  h = x\n  x = y\n  x[t] = 1.0": ["y.shape[0] >= x.shape[0]"],
    "for t in range(x.shape[0]): x[t] = sum([x[k + 1] for k in range(t)])": None,
}  # fmt: skip


@pytest.mark.parametrize("body", PROVED)
def test_checks_go_where_every_index_is_in_range_and_stay_elsewhere(body):
    assert asked(body, {"x": (6,), "y": (6,)}, {"n": 5}) == PROVED[body]


def test_what_was_not_so_in_the_run_is_not_asked():
    body = "for t in range(n): x[t] = 1.0"
    assert asked(body, {"x": (5,)}, {"n": 5}) == ["x.shape[0] >= n"]
    assert asked(body, {"x": (5,)}, {"n": 6}) is None


def test_more_conditions_than_one_reads_are_not_asked():
    body = "for t in range(n): " + "; ".join(f"{array}[t] = 1.0" for array in "abcde")
    assert asked(body, dict.fromkeys("abcd", (6,)) | {"e": (6,)}, {"n": 5}) is None
    assert len(asked(body.replace("; e[t] = 1.0", ""), dict.fromkeys("abcd", (6,)), {"n": 5})) == 4


# --- random kernels --------------------------------------------------------------------------------------------------

_ENDS = ["x.shape[0]", "x.shape[1]", "y.shape[0]", "n", "n + 1", "{v}", "{v} + 1", "x.shape[0] - 1", "3"]
_RANGES = ["range({0})", "range(1, {0})", "range({0} - 1, -1, -1)", "range({0} - 1, 0, -1)", "range({1}, {0})"]
_INDICES = ["{v}", "{v} - 1", "{v} + 1", "{w}", "{v} - {w}", "{v} + {w}", "0", "-1", "{v} - 2", "min({v}, {w})", "k"]
_TESTS = ["{v} > 0", "{v} < {0} - 1", "{v} - {w} >= 0", "{v} != {w}", "{v} < {w} and {w} < {0}", "k < y.shape[0]"]


class Drawn:
    """A nest of loops as a kernel might have it; some stay in range."""

    def __init__(self, seed):
        self.random = random.Random(seed)

    def filled(self, templates, counters):
        v, w = (self.random.choice(counters or ["0"]) for _ in range(2))
        ends = [self.random.choice(_ENDS).format(v=v) for _ in range(2)]
        return self.random.choice(templates).format(*ends, v=v, w=w)

    def block(self, counters, depth):
        return [line for _ in range(self.random.choice([1, 1, 2])) for line in self.statement(counters, depth)]

    def statement(self, counters, depth):
        kind = self.random.choice(["for", "for", "for", "if", "store", "count"] if depth else ["store"])
        if kind == "for" and len(counters) < 3:
            counter = "ijm"[len(counters)]
            inside = self.block([*counters, counter], depth - 1)
            return [f"for {counter} in {self.filled(_RANGES, counters)}:", *(f"  {line}" for line in inside)]
        if kind == "if" and counters:
            body = self.random.choice([self.block(counters, depth - 1), ["continue"]])
            return [f"if {self.filled(_TESTS, counters)}:", *(f"  {line}" for line in body)]
        if kind == "count":
            return [self.random.choice(["k += 1", "k = 0", "k -= 1", "k = k + 1", "k = 1"])]
        one, other = (self.filled(_INDICES, counters) for _ in range(2))
        return [self.random.choice([f"x[{one}, {other}] = 1.0", f"y[{one}] = y[{other}] + 1", f"y[{one}] += 1.0"])]


def test_no_kernel_without_checks_leaves_an_axis():
    sizes = list(itertools.product((0, 1, 2, 4), (0, 1, 3), (0, 1, 2, 5), (-1, 0, 1, 3)))
    free = failing = 0
    for seed in range(300):
        text = "\n".join(["k = 0", *Drawn(seed).block([], 4)])
        needed = asked(text, {"x": (5, 4), "y": (5,)}, {"n": 4})
        code = compile(text, "drawn", "exec")
        for rows, columns, length, n in sizes if needed is not None else sizes[-9:]:
            names = {"x": np.zeros((rows, columns)), "y": np.zeros(length), "n": n}
            if needed is None or all(eval(one, dict(names)) for one in needed):
                try:
                    exec(code, names)
                except IndexError:
                    assert needed is None, f"{text}\n{needed}\n{rows, columns, length, n}"
                    failing += 1
        free += needed is not None
    assert free > 50
    assert failing > 25


# --- whole Functions -------------------------------------------------------------------------------------------------


def test_what_is_too_short_is_left_to_the_old_loop_and_its_error(bench):
    body = """
        y = torch.zeros_like(b)
        for t in range(1, len(b)):
            y[t] = a[t] * y[t - 1] + b[t]
        return y
        """
    original, candidate, proposal = bench.compiled(bench.forward(body, "a, b"), [x, x])
    assert "boundscheck" not in proposal.added
    assert "and a.shape[0] >= b.shape[0]" in proposal.new_text
    for a, b in ((x, x), (x, x[:3]), (x[:1], x[:1]), (x[:0], x[:1]), (x[:0], x[:0])):
        assert bench.difference(original, candidate, [a, b]) == ""
    assert bench.called(candidate, [x[:5], x]) == bench.called(original, [x[:5], x]) == "IndexError"


SHAPES_THAT_CHANGE = {
    "a tensor turned in place": "y.t_()",
    "a tensor made longer": "y.resize_(9, 9).zero_()",
    "a tensor given other data": "y.data = torch.zeros(9, 9)",
}


@pytest.mark.parametrize("name", SHAPES_THAT_CHANGE)
def test_a_shape_that_changes_in_place_is_asked_for(bench, name):
    body = f"""
        n, m = x.shape
        y = torch.zeros(n, m)
        {SHAPES_THAT_CHANGE[name]}
        for i in range(1, n):
            for j in range(m):
                y[i, j] = y[i - 1, j] + x[i, j]
        return y
        """
    square = torch.arange(16.0).reshape(4, 4)
    original, candidate, proposal = bench.compiled(bench.forward(body), [square])
    assert "boundscheck" in proposal.added or "y.shape[0] >= n" in proposal.new_text
    for argument in (square, square[:2], square[:, :2]):
        assert bench.difference(original, candidate, [argument]) == ""


def test_a_size_that_another_loop_has_bound_again_is_asked_for(bench):
    body = """
        for k in range(3):
            n = k + 1
            if k == 0:
                y = torch.zeros(n)
        for t in range(n):
            y[t] = y[t - 1] + x[t]
        return y
        """
    _, proposal = bench.proposed(bench.forward(body), [x], loop=-1)
    assert "boundscheck" in proposal.added  # in the run it was too short


def test_a_name_that_a_loop_around_binds_again_is_asked_for(bench):
    body = """
        for again in range(2):
            n = again + 3
            if again == 0:
                y = torch.zeros(n)
            for t in range(1, n):
                y[t] = y[t - 1] + x[t]
        return y
        """
    original, candidate, proposal = bench.compiled(bench.forward(body), [x])
    assert "y.shape[0] >= n" in proposal.new_text
    assert bench.called(candidate, [x]) == bench.called(original, [x]) == "IndexError"
