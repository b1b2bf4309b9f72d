"""Sums that begin as a tensor, not as Python's 0: their dtype and shape are those of both."""

import pytest
import torch
from tests.doctor.rewrite.loops.rewriting import assert_rewritten, assert_same, rewritten, source_of
from torch import randn

from gradwright.doctor.rewrite.source_text import DeclinedError

# name -> (signature, inputs for n and m, the function's body, what comes out)
CASES = {
    "a sum": (
        "x",
        lambda n, m: [randn(n)],
        """
        total = torch.zeros(())
        for v in x:
            total = total + v ** 2
        return total
        """,
        "total = total + (x ** 2).sum()",
    ),
    "a sum of rows, in place": (
        "x",
        lambda n, m: [randn(n, m)],
        """
        total = torch.zeros(x.shape[1])
        for row in x:
            total += row * 2
        return total
        """,
        "total += (x * 2).sum(0)",
    ),
    "one in every row": (
        "x",
        lambda n, m: [randn(n, m)],
        """
        out = []
        for row in x:
            total = torch.tensor(0.0)
            for v in row:
                total = total + v * v
            out.append(total)
        return torch.stack(out)
        """,
        "return torch.tensor(0.0) + (x * x).sum(-1)",
    ),
    "every partial sum": (
        "x, first",
        lambda n, m: [randn(n), randn(())],
        """
        total = first
        out = []
        for v in x:
            total = total + v
            out.append(total)
        return torch.stack(out)
        """,
        "return torch.cat([total[None], x]).cumsum(0)[1:].clone()",
    ),
    "every partial sum of rows": (
        "x",
        lambda n, m: [randn(n, m)],
        """
        total = torch.ones(x.shape[1])
        out = torch.zeros_like(x)
        for i in range(len(x)):
            total += x[i]
            out[i] = total * 2
        return out
        """,
        "total = torch.cat([total[None], x]).cumsum(0)[1:]\nout = total * 2",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_array_code_comes_out_and_does_what_the_loop_did(name):
    assert_rewritten(*CASES[name])


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.int64])
def test_the_dtype_of_a_partial_sum_is_that_of_both(dtype):
    body = "total = torch.zeros(())\nout = []\nfor v in x:\n    total = total + v\n    out.append(total)\n"
    text = source_of(body + "return torch.stack(out)", "x")
    proposal = rewritten(text, [torch.ones(4)])
    assert_same(text, proposal.new_text, [torch.arange(5).to(dtype)])


def test_a_tensor_that_others_see_change_is_left_alone():
    body = "for i in range(len(x)):\n    total += x[i]\n    out[i] = total\nreturn out"
    with pytest.raises(DeclinedError, match="begins as something that the text does not show"):
        rewritten(source_of(body, "x, total, out"), [torch.ones(4), torch.zeros(()), torch.zeros(4)])


def test_one_tensor_that_is_kept_in_every_round_is_no_partial_sum():
    body = (
        "total = torch.zeros(())\nout = []\nfor v in x:\n    total += v\n    out.append(total)\nreturn torch.stack(out)"
    )
    with pytest.raises(DeclinedError, match="total"):
        rewritten(source_of(body, "x"), [torch.ones(4)])
