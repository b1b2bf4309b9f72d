"""What is taken at once, what stays and why; every schedule means what the loop means, in any order of its rounds."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from tests.doctor.rewrite.loops.programs import random_program
from tests.doctor.rewrite.loops.scheduled import named, outcome, read, scheduled, shown

from gradwright.doctor.rewrite.loops.meetings import Meetings
from gradwright.doctor.rewrite.loops.schedule import schedule
from gradwright.doctor.rewrite.source_text import DeclinedError

N = 5


def tensors() -> dict[str, Any]:
    def numbers(*shape: int) -> torch.Tensor:
        return torch.randint(-3, 4, shape).double()

    vectors = {name: numbers(12) for name in ("x", "y", "w", "out")}
    return {
        **vectors, "A": numbers(12, 12), "B": numbers(12, 12), "idx": torch.randint(0, 5, (12,)),
        "n": N, "m": 4, "s": 0.0, "found": [],
    }  # fmt: skip


SIGNATURE = "def program(x, y, w, out, A, B, idx, n, m, s, found):\n"


def function(body: str) -> str:
    lines = [f"    {line}" for line in body.strip().split("\n")]
    return SIGNATURE + "\n".join(lines) + "\n    return x, y, w, out, A, B, s, found\n"


PLANS = {
    "for i in range(n):\n    y[i] = x[i] * 2": ["map i: y[i]"],
    "for i in range(n):\n    for j in range(m):\n        t = A[i][j]\n        B[i][j] = t * t": [
        "map i j: t", "map i j: B[i, j]"
    ],
    "for i in range(n):\n    acc = 0\n    for j in range(m):\n        acc += A[i, j] * w[j]\n    y[i] = acc": [
        "map i: acc", "reduce i j along j: acc", "map i: y[i]"
    ],
    "for k in range(m):\n    for i in range(n):\n        for j in range(m):\n            out[i] += A[i, k] * B[k, j]": [
        "reduce k i j along k j: out[i]"
    ],
    "for i in range(n):\n    y[idx[i]] += x[i]": ["scatter i: y[idx[i]]"],
    "for i in range(n):\n    y[idx[i]] = 1.0": ["scatter i: y[idx[i]]"],
    "for i in range(n):\n    s += x[i]\n    y[i] = s": ["running i along i: s", "map i: y[i]"],
    "for i in range(n):\n    y[i] = s\n    s = s + x[i]": ["running i along i: s", "map i: y[i]"],
    "for i in range(1, n):\n    y[i] = y[i - 1] + x[i]": ["running i along i: y[i]"],
    "for i in range(n):\n    s = max(s, x[i].item())": ["reduce i along i: s"],
    "for i in range(n):\n    x[i] = x[i + 1] * 2": ["map i: x[i]"],
    "for i in range(1, n):\n    x[i] = x[i - 1] * 2 + y[i]\n    y[i] = 3": None,
    "for i in range(n):\n    if x[i] > y[i]:\n        y[i] = x[i]": ["map i: y[i]"],
    "for i in range(1, n):\n    for j in range(m):\n        A[i, j] = A[i - 1, j] * w[j] + 1": [
        "for i", "  map j: A[i, j]"
    ],
    "for i in range(n):\n    for j in range(1, m):\n        A[i, j] = A[i, j - 1] * w[j] + 1": [
        "for j", "  map i: A[i, j]"
    ],
    "for i in range(1, n):\n    for j in range(1, m):\n        A[i, j] = A[i - 1, j] + A[i, j - 1]": None,
    "for i in range(n):\n    for j in range(i):\n        A[i, j] = A[j, i]": ["map i j: A[i, j]"],
    "for i in range(n):\n    for j in range(m):\n        y[i + j] += x[i] * w[j]": ["scatter i j: y[i + j]"],
    "for i in range(0, n, 2):\n    x[i] = x[i + 1]": ["map i: x[i]"],
    "for i in range(n):\n    h = x[i] * s\n    s = h + 1": None,
    "k = 0\nfor i in range(n):\n    y[k] = x[i]\n    k += 2": ["map i: y[k]"],
    "for i in range(n):\n    if x[i] > s:\n        s = x[i]\n        y[0] = i": ["extremum i along i: s"],
    "for row in A:\n    row += 1": ["map i: A[i]"],
    "for row in A:\n    found.append(row * w)": ["append i: found"],
    "for v in x:\n    if v > 0:\n        found.append(v)": ["append i: found"],
    "top = x[0]\nfor i in range(1, n):\n    if x[i] > top:\n        top = x[i]\ns = top": ["extremum i along i: top"],
    "for i in range(n):\n    best = -9.0\n    k = 0\n    for j in range(m):\n"
    "        if A[i, j] > best:\n            best = A[i, j]\n            k = j\n    y[i] = k": [
        "map i: best", "map i: k", "extremum i j along j: best", "map i: y[i]"
    ],
    "for i in range(n):\n    y[idx[i]] = x[i]": None,
    "for i in range(n):\n    y[0] = x[i]": None,
}  # fmt: skip


@pytest.mark.parametrize("body", PLANS, ids=[f"{k:02d}" for k in range(len(PLANS))])
def test_a_loop_is_taken_apart_as_far_as_its_dependences_let_it_be(body: str):
    torch.manual_seed(0)
    given = tensors()
    if PLANS[body] is None:
        with pytest.raises(DeclinedError):
            scheduled(function(body), **given)
    else:
        assert shown(scheduled(function(body), **given).steps) == PLANS[body]
        assert outcome(function(body), named(**given)) == "right"


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        (
            "for i in range(1, n):\n    y[i] = y[i - 1] * w[i] + x[i]",
            "y[i] needs y[i - 1], written by an earlier iteration",
        ),
        ("for i in range(n):\n    s = s * 2 + x[i]", "s needs its own value of the iteration before"),
        (
            "for i in range(n):\n    y[idx[i]] = x[i]",
            "y[idx[i]] may be written in several rounds of the loop over i, and the last one counts",
        ),
    ],
    ids=["element", "scalar", "duplicates"],
)
def test_what_is_carried_is_said_in_one_sentence(body: str, sentence: str):
    with pytest.raises(DeclinedError) as raised:
        scheduled(function(body), **tensors())
    assert str(raised.value) == sentence


def test_arrays_that_share_memory_are_taken_for_one():
    body = function("for i in range(n):\n    y[i] = x[i + 1] * 2")
    separate = named(**tensors())

    def shared() -> dict[str, Any]:
        given = separate()
        return {**given, "y": given["x"][1:]}

    assert outcome(body, separate) == "right"
    assert outcome(body, shared) in ("right", "declined")
    with pytest.raises(DeclinedError, match="may be the same memory"):
        nest, seen, _ = read(body, shared)
        schedule(nest, seen)


def test_the_certificate_rests_on_the_text_alone():
    fresh = function("out = torch.zeros(n)\nfor i in range(n):\n    out[i] = torch.exp(x[i])")
    assert scheduled(fresh, **tensors()).certificate
    assert not scheduled(fresh.replace("out = torch.zeros(n)", "pass"), **tensors()).certificate
    assert not scheduled(fresh.replace("= torch.zeros(n)", "= torch.zeros(n); z = out"), **tensors()).certificate
    assert not scheduled(fresh.replace("torch.exp", "w"), **{**tensors(), "w": lambda v: v}).certificate


# --- random programs -------------------------------------------------------------------------------------------------

SEEDS = range(40)


def outcomes(seeds: range) -> list[str]:
    found = []
    for seed in seeds:
        program = random_program(seed)
        found.append(outcome(program.source, program.inputs, seed))
    return found


def test_random_programs_are_scheduled_right_or_declined():
    found = outcomes(SEEDS)
    assert found.count("wrong") == 0
    assert found.count("right") > len(SEEDS) / 4


def test_the_check_sees_a_dependence_test_that_overlooks_what_is_carried(monkeypatch: pytest.MonkeyPatch):
    real = Meetings.meet
    monkeypatch.setattr(
        Meetings, "meet", lambda self, a, b, orders: "<" not in orders.values() and real(self, a, b, orders)
    )
    assert outcomes(range(20)).count("wrong") >= 3


def test_the_check_sees_a_dependence_test_that_overlooks_the_order_within_a_round(monkeypatch: pytest.MonkeyPatch):
    real = Meetings.meet
    monkeypatch.setattr(
        Meetings, "meet", lambda self, a, b, orders: "<" in orders.values() and real(self, a, b, orders)
    )
    assert outcomes(range(20)).count("wrong") >= 1
