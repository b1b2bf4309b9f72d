"""Things walked over in step: the array code stops where Python stops, at the end of the shorter one."""

from types import SimpleNamespace

import pytest
import torch
from tests.doctor.rewrite.loops.rewriting import assert_rewritten, assert_same, rewritten, source_of
from torch import rand, randint, randn

from gradwright.doctor.rewrite.source_text import DeclinedError

# name -> (signature, inputs for n and m, the function's body, what comes out)
CASES = {
    "two inputs may be of two lengths": (
        "x, y",
        lambda n, m: [randn(n, 2), randn(m, 2)],
        """
        out = []
        for a, b in zip(x, y):
            out.append((a * b).sum())
        return torch.stack(out)
        """,
        "n = min(len(x), len(y))\nreturn (x[:n] * y[:n]).sum(-1)",
    ),
    "also the one that is not read": (
        "x, y",
        lambda n, m: [randn(n), randn(m)],
        """
        total = 0.0
        for a, _ in zip(x, y):
            total += a * 2
        return total
        """,
        "n = min(len(x), len(y))\ntotal = (x[:n] * 2).sum()",
    ),
    "counted": (
        "x, y, out",
        lambda n, m: [randn(n), randn(m), torch.zeros(9)],
        """
        for k, (a, b) in enumerate(zip(x, y)):
            out[k] = a * b + k
        return out
        """,
        "n = min(len(x), len(y))\nout[:n] = x[:n] * y[:n] + torch.arange(n)",
    ),
    "three of them, and a list": (
        "x, y, w",
        lambda n, m: [randn(n, 2), randn(m), [1.5, 2.5, 3.5]],
        """
        out = []
        for a, b, c in zip(x, y, w):
            out.append(a * b * c)
        return torch.stack(out)
        """,
        (
            "n = min(len(x), len(y), len(w))\n"
            "return x[:n] * y[:n, None] * torch.tensor(w, dtype=torch.float64)[:n].to(torch.float32)[:, None]"
        ),
    ),
    "one is computed from the other row by row": (
        "x, w",
        lambda n, m: [randn(n, 2), randn(2, m)],
        """
        y = torch.softmax(torch.relu(x) * 2 + x, dim=-1)
        z = y @ w
        out = []
        for a, b, c in zip(x, y, z):
            out.append((a * b).sum() + c)
        return torch.stack(out)
        """,
        "return (x * y).sum(-1)[:, None] + z",
    ),
    "lengths that the text says are equal": (
        "x, y",
        lambda n, m: [randn(n, m), randn(n)],
        """
        assert x.shape[0] == len(y)
        total = 0.0
        for a, b in zip(x, y):
            total = total + a.sum() * b
        return total
        """,
        "total = x.sum(-1) @ y[:len(x)]",
    ),
    "strict": (
        "x, y",
        lambda n, m: [randn(n), randn(n)],
        """
        total = 0.0
        for a, b in zip(x, y, strict=True):
            total = total + a * b * 2
        return total
        """,
        "total = 2 * (x @ y)",
    ),
    "neighbours": (
        "x",
        lambda n, m: [randn(n, m)],
        """
        out = []
        for a, b in zip(x[:-1], x[1:]):
            out.append(b - a)
        return torch.stack(out)
        """,
        "return x[1:] - x[:-1]",
    ),
    "the text has a name for the shorter length": (
        "x, y",
        lambda n, m: [randn(n), randn(m)],
        """
        count = min(len(x), len(y))
        out = torch.zeros(count)
        for i in range(count):
            out[i] = x[i] * y[i]
        return out
        """,
        "out = (x[:count] * y[:count]).to(torch.empty(0))",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_array_code_comes_out_and_does_what_the_loop_did_whatever_is_longer(name):
    assert_rewritten(*CASES[name])


def test_nothing_is_broadcast_where_one_of_them_has_one_row_only():
    text = source_of("s = 0.0\nfor a, b in zip(x, y):\n    s = s + a * b\nreturn s", "x, y")
    proposal = rewritten(text, [randn(4), randn(4)])
    for n, m in ((5, 1), (1, 5), (0, 1), (1, 0)):
        assert_same(text, proposal.new_text, [randn(n), randn(m)])


def test_a_module_is_no_tensor_whose_rows_another_has():
    body = "p = m.relu(x)\nq = m.relu(y)\ns = 0.0\nfor v, w in zip(p, q):\n    s = s + v * w\nreturn s"
    text = source_of(body, "x, y, m")
    assert "min(len(p), len(q))" in rewritten(text, [randn(4), randn(4), SimpleNamespace(relu=torch.relu)]).new_text


def test_an_equation_that_no_longer_holds_is_not_believed():
    body = "assert len(x) == len(y)\ny = y[1:]\ns = 0.0\nfor a, b in zip(x, y):\n    s = s + a * b\nreturn s"
    text = source_of(body, "x, y")
    proposal = rewritten(text, [randn(4), randn(4)])
    assert "min(len(x), len(y))" in proposal.new_text
    assert_same(text, proposal.new_text, [randn(5), randn(5)])


@pytest.mark.parametrize(
    ("head", "reason"), [("zip(x, *n)", "it is not known what"), ("zip(x, n.items())", "it is not known what")]
)
def test_what_yields_something_unknown_is_declined(head, reason):
    with pytest.raises(DeclinedError, match=reason):
        text = source_of(f"s = 0.0\nfor a, b in {head}:\n    s = s + a.sum()\nreturn s", "x, n")
        rewritten(text, [rand(1, 2), {"a": randint(0, 2, ())}])
