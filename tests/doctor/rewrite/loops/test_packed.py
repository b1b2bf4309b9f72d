"""Counters that several loops, or a condition, move on: what they count is written in order, or read at once."""

import pytest
import torch
from tests.doctor.rewrite.loops.rewriting import assert_rewritten, rewritten, source_of
from torch import randn

from gradwright.doctor.rewrite.source_text import DeclinedError

# name -> (signature, inputs for n and m, the function's body, what comes out)
CASES = {
    "two loops": (
        "x",
        lambda n, m: [randn(n, m)],
        """
        out = torch.zeros(x.numel())
        k = 0
        for i in range(x.shape[0]):
            for j in range(x.shape[1]):
                out[k] = x[i, j] * 2
                k += 1
        return out
        """,
        "rows = (x * 2).flatten(0, 1)\nout[:len(rows)] = rows",
    ),
    "two loops in step": (
        "x, y",
        lambda n, m: [randn(n, m), randn(m, n)],
        """
        out = torch.zeros(60)
        k = 0
        for a, b in zip(x, y):
            for c, d in zip(a, b):
                out[k] = c * d
                k += 1
        return out
        """,
        (
            "n = min(len(x), len(y))\nrows = min(x.shape[1], y.shape[1])\n"
            "grown = (x[:n, :rows] * y[:n, :rows]).flatten(0, 1)\nout[:len(grown)] = grown"
        ),
    ),
    "every pair once": (
        "x",
        lambda n, m: [randn(n, m)],
        """
        n = len(x)
        out = torch.zeros(n * (n - 1) // 2)
        k = 0
        for i in range(n):
            for j in range(i + 1, n):
                out[k] = (x[i] - x[j]).pow(2).sum().sqrt()
                k += 1
        return out
        """,
        (
            "mask = torch.arange(n) >= (torch.arange(n) + 1)[:, None]\n"
            "rows = torch.where(mask, (x[:, None] - x).pow(2).sum(-1), 1).sqrt()[mask]\n"
            "out[:len(rows)] = rows"
        ),
    ),
    "what a condition lets through, from a place on": (
        "x, out",
        lambda n, m: [randn(n), torch.zeros(9)],
        """
        k = 2
        for v in x:
            if v > 0:
                out[k] = v * 2
                k += 1
        return out, k
        """,
        "rows = (x * 2)[x > 0]\nout[2:2 + len(rows)] = rows\nk += (x > 0).sum().item()",
    ),
    "rows, of which two arrays are filled": (
        "x, out, at",
        lambda n, m: [randn(n, m), torch.zeros(9, m), torch.zeros(9, dtype=torch.int64)],
        """
        k = 0
        for i in range(len(x)):
            if x[i].sum() > 0:
                out[k] = x[i] * 2
                at[k] = i
                k += 1
        return out, at
        """,
        (
            "rows = (x * 2)[x.sum(-1) > 0]\nout[:len(rows)] = rows\n"
            "grown = torch.arange(len(x))[x.sum(-1) > 0]\nat[:len(grown)] = grown"
        ),
    ),
    "one loop, and what it counted is read later": (
        "x",
        lambda n, m: [randn(n)],
        """
        out = torch.zeros(9)
        k = 0
        for i in range(1, len(x)):
            out[k] = x[i] - x[i - 1]
            k += 1
        return out[:k]
        """,
        "out[:max(len(x) - 1, 0)] = x[1:] - x[:-1]\nk = len(range(1, len(x)))",
    ),
    "read at": (
        "x, y",
        lambda n, m: [randn(n, m), randn(n * m)],
        """
        out = torch.zeros_like(x)
        k = 0
        for i in range(x.shape[0]):
            for j in range(x.shape[1]):
                out[i, j] = x[i, j] * y[k]
                k += 1
        return out
        """,
        "out = x * y[:x.shape[0] * x.shape[1]].unflatten(0, (x.shape[0], x.shape[1]))",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_array_code_comes_out_and_does_what_the_loop_did(name):
    assert_rewritten(*CASES[name])


def test_a_place_that_shows_what_is_read_is_declined():
    body = (
        "out = x.view(-1)\nk = 0\nfor i in range(x.shape[0]):\n    for j in range(x.shape[1]):\n"
        "        out[k] = x[2 - i, j] * 2\n        k += 1\nreturn out"
    )
    with pytest.raises(DeclinedError, match="may be the same memory"):
        rewritten(source_of(body, "x"), [torch.ones(3, 2)])


DECLINED = {
    "a counter that is read besides": (
        "k = 0\nfor v in x:\n    if v > 0:\n        out[k] = v * k\n        k += 1\nreturn out",
    ),
    "a place after the next one": (
        "k = 0\nfor v in x:\n    if v > 0:\n        k += 1\n        out[k] = v\nreturn out",
    ),
    "a counter that moves on by two": (
        "k = 0\nfor v in x:\n    if v > 0:\n        out[k] = v\n        k += 2\nreturn out",
    ),
    "a counter that comes from elsewhere": (
        "k = n\nfor v in x:\n    if v > 0:\n        out[k] = v\n        k += 1\nreturn out",
    ),
    "an array that is read, too": (
        "k = 0\nfor i in range(4):\n    if x[i] > 0:\n        out[k] = x[i] + out[i]\n        k += 1\nreturn out",
    ),
}


@pytest.mark.parametrize("name", DECLINED)
def test_another_use_of_the_counter_is_declined(name):
    (body,) = DECLINED[name]
    with pytest.raises(DeclinedError):
        rewritten(source_of(body, "x, out, n"), [torch.ones(4), torch.zeros(9), 1])
