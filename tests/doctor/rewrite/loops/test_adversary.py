"""Programs at which a rewrite went wrong, or would have: each is declined by its reason, or does the same there."""

from typing import Any

import pytest
import torch
from tests.doctor.rewrite.loops.rewriting import assert_same, rewritten, source_of

from gradwright.doctor.rewrite.source_text import DeclinedError

x = torch.tensor([0.5, -1.0, 2.0, 0.25, -3.0, 1.0])
rows = torch.arange(12.0).reshape(4, 3).sin()


class Doubled(torch.Tensor):
    """A tensor whose elements are others than it shows."""

    def __getitem__(self, key):
        return super().__getitem__(key) * 2


class Money:
    def __add__(self, other):
        return self


# name -> (body, arguments by name, a piece of the reason)
DECLINED: dict[str, tuple[str, dict[str, Any], str]] = {
    "elements that are one in memory": (
        "y = torch.zeros(1).expand(len(x))\nfor i in range(len(x)):\n    y[i] = x[i]\nreturn y",
        {"x": x},
        "several elements of y",
    ),
    "windows that overlap": (
        "w = x.unfold(0, 3, 1)\nfor i in range(len(w)):\n    w[i] += 1\nreturn x",
        {"x": x},
        "several elements of w",
    ),
    "the best, an element of what is changed later": (
        "best = x[0]\nfor i in range(1, len(x)):\n    best = max(best, x[i])\nx.zero_()\nreturn best",
        {"x": x},
        "best may be an element of x",
    ),
    "elements in a list, changed one by one later": (
        "y = []\nfor i in range(len(x)):\n    y.append(x[i] * 2)\nfor one in y:\n    one += 1\nreturn y",
        {"x": x},
        "an element of y is written into after the loop",
    ),
    "under autocast": (
        """
        out = torch.zeros(len(a), len(a))
        with torch.autocast("cpu", dtype=torch.bfloat16):
            for i in range(len(a)):
                for j in range(len(a)):
                    s = 0.0
                    for k in range(a.shape[1]):
                        s = s + a[i, k] * a[j, k]
                    out[i, j] = s
        return out
        """,
        {"a": rows},
        "autocast",
    ),
    "a product that Python has without bound": (
        "p = 1\nfor i in range(len(a)):\n    p *= a[i].item()\nreturn p",
        {"a": torch.tensor([2, 3, 4])},
        "of which none is the largest",
    ),
    "a tensor of a class of its own": (
        "y = torch.zeros(len(x))\nfor i in range(len(x)):\n    y[i] = x[i] + 1\nreturn y",
        {"x": x.as_subclass(Doubled)},
        "x is a Doubled",
    ),
    "a sum that is no number": (
        "for i in range(len(x)):\n    s = s + x[i]\nreturn s",
        {"x": x, "s": Money()},
        "s is a Money",
    ),
    "the rows of a matrix, summed by Python": (
        "y = []\nfor i in range(len(m)):\n    y.append(sum(m[i]))\nreturn torch.stack(y)",
        {"m": rows.reshape(2, 2, 3)},
        "sum of the rows of a matrix",
    ),
}


@pytest.mark.parametrize("name", DECLINED)
def test_what_would_come_out_differently_is_declined(name):
    body, arguments, reason = DECLINED[name]
    with pytest.raises(DeclinedError, match=reason):
        rewritten(source_of(body, ", ".join(arguments)), list(arguments.values()))


# name -> (body, the arguments of the run, other arguments at which the two have to agree)
SAME: dict[str, tuple[str, dict[str, Any], Any]] = {
    "a range that is empty, whose end is below 0": (
        "s = torch.zeros(())\nfor i in range(n - 2):\n    s = s + x[i] ** 2\nreturn s",
        {"x": x, "n": 6},
        [(x, 1), (x, 0), (x, -3)],
    ),
    "an index that its condition keeps inside": (
        "s = torch.zeros(())\nfor i in range(len(t)):\n    if t[i] != -100:\n        s = s - p[i, t[i]]\nreturn s",
        {"p": rows, "t": torch.tensor([0, 2, 1, 1])},
        [(rows, torch.tensor([0, -100, 1, -100]))],
    ),
    "Python's comparison with a tenth": (
        "c = 0\nfor i in range(len(x)):\n    if x[i].item() > 0.1:\n        c += 1\nreturn c",
        {"x": x},
        [(torch.full((5,), 0.1),)],
    ),
    "halves that Python adds up in float64": (
        "s = 0.0\nfor i in range(len(x)):\n    s += x[i].item() ** 2\nreturn s",
        {"x": x.half()},
        [(torch.linspace(300, 900, 50).half(),)],
    ),
    "bytes that Python subtracts": (
        "s = 0\nfor i in range(len(a)):\n    s += abs(a[i].item() - b[i].item())\nreturn s",
        {"a": torch.tensor([1, 2], dtype=torch.uint8), "b": torch.tensor([0, 1], dtype=torch.uint8)},
        [(torch.tensor([1, 200], dtype=torch.uint8), torch.tensor([2, 9], dtype=torch.uint8))],
    ),
    "bytes added to a real": (
        "s = 0.0\nfor i in range(len(a)):\n    s += a[i]\nreturn s",
        {"a": torch.ones(4, dtype=torch.uint8)},
        [(torch.full((300,), 3, dtype=torch.uint8),)],
    ),
    "columns that are viewed flat": (
        "y = torch.stack([x[:, j] for j in range(x.shape[1])])\nreturn y.view(-1), y",
        {"x": rows},
        [(rows,), (rows[:1],)],
    ),
    "a stack of views, then changed": (
        "y = torch.stack([x[i].unsqueeze(0) for i in range(len(x))])\ny += 1\nreturn y, x",
        {"x": rows},
        [(rows,), (rows[:1],)],
    ),
    "rows that are flipped": (
        "y = []\nfor i in range(len(x)):\n    y.append(x[i].flip(0))\nreturn torch.stack(y)",
        {"x": rows},
        [(rows,)],
    ),
}


@pytest.mark.parametrize("name", SAME)
def test_what_is_rewritten_agrees_where_it_once_did_not(name):
    body, arguments, others = SAME[name]
    text = source_of(body, ", ".join(arguments))
    new_text = rewritten(text, list(arguments.values())).new_text
    assert new_text != text
    for args in (list(arguments.values()), *map(list, others)):
        assert_same(text, new_text, args)
