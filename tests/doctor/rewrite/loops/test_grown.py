"""Tensors that grow by rows: one ``cat`` of all rows comes out, or the rows themselves."""

import pytest
import torch
from tests.doctor.rewrite.loops.rewriting import assert_rewritten, rewritten, source_of
from torch import randn

from gradwright.doctor.rewrite.source_text import DeclinedError

# name -> (signature, inputs for n and m, the function's body, what comes out)
CASES = {
    "a tensor of no rows": (
        "x",
        lambda n, m: [randn(n, m)],
        """
        out = torch.empty(0, x.shape[1])
        for row in x:
            out = torch.cat([out, (row * 2).unsqueeze(0)], dim=0)
        return out
        """,
        "out = torch.cat([out, x * 2])",
    ),
    "a tensor of no rows and the same dtype": (
        "x",
        lambda n, m: [randn(n, m)],
        """
        out = x.new_empty(0, x.shape[1])
        for row in x:
            out = torch.cat((out, row[None]))
        return out
        """,
        "out = x.clone()",
    ),
    "a tensor that has rows already": (
        "x, out",
        lambda n, m: [randn(n, m), randn(2, m)],
        """
        for i in range(len(x)):
            out = torch.vstack([out, x[i] * i])
        return out
        """,
        "out = torch.cat([out, x * torch.arange(len(x))[:, None]])",
    ),
    "numbers": (
        "x",
        lambda n, m: [randn(n)],
        """
        out = torch.tensor([])
        for v in x:
            out = torch.cat([out, torch.tensor([v.item() * 2])])
        return out
        """,
        "out = torch.cat([out, (x * 2).detach().to(torch.float32)])",
    ),
    "an empty tensor of one axis, and slices of rows": (
        "x",
        lambda n, m: [randn(n, m)],
        """
        out = torch.tensor([])
        for i in range(x.shape[0]):
            out = torch.cat([out, x[i:i + 1] * 2])
        return out
        """,
        "rows = (x.unsqueeze(1) * 2).flatten(0, 1)\nif len(rows):\nout = torch.cat([out, rows])",
    ),
    "None at first": (
        "x",
        lambda n, m: [randn(n, m)],
        """
        out = None
        for row in x:
            new = (row.exp()).unsqueeze(0)
            out = new if out is None else torch.cat([out, new])
        return 0.0 if out is None else out
        """,
        "rows = x.exp()\nif len(rows):\nout = rows",
    ),
    "None at first, in two branches": (
        "x",
        lambda n, m: [randn(n, m)],
        """
        out = None
        for i in range(len(x)):
            new = (x[i] * 2)[None]
            if out is not None:
                out = torch.cat((out, new), 0)
            else:
                out = new
        return 0.0 if out is None else out
        """,
        "rows = x * 2\nif len(rows):\nout = rows",
    ),
    "under a condition": (
        "x",
        lambda n, m: [randn(n, m)],
        """
        out = torch.zeros(0, x.shape[1])
        for row in x:
            if row.sum() > 0:
                out = torch.cat([out, row[None] * 2])
        return out
        """,
        "out = torch.cat([out, (x[:, None] * 2)[x.sum(-1) > 0].flatten(0, 1)])",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_array_code_comes_out_and_does_what_the_loop_did(name):
    assert_rewritten(*CASES[name])


DECLINED = {
    "a name for the first row": (
        "out = None\nfor i in range(len(x)):\n    new = x[i:i + 1]\n"
        "    out = new if out is None else torch.cat([out, new])\nreturn out",
        "may be another name",
    ),
    "another axis": (
        "out = torch.empty(3, 0)\nfor r in x:\n    out = torch.cat([out, r[:, None]], dim=1)\nreturn out",
        "grows along another axis",
    ),
    "something else at first": (
        "out = None\nfor r in x:\n    out = r[None] if out is None else torch.cat([out, r[None] * 2])\nreturn out",
        "needs its own value of the iteration before",
    ),
    "one row or two": (
        "out = torch.empty(0, 3)\nfor i in range(len(x) - 1):\n    if x[i].sum() > 3:\n"
        "        out = torch.cat([out, x[i : i + 1]])\n    else:\n"
        "        out = torch.cat([out, x[i : i + 2]])\nreturn out",
        "grows in the order of the rounds",
    ),
    "begun anew in every round": (
        "outs = []\nfor r in x:\n    out = torch.empty(0)\n    for v in r:\n        out = torch.cat([out, v[None]])\n"
        "    outs.append(out)\nreturn torch.stack(outs)",
        "begins anew in the loop",
    ),
    "read while it grows": (
        "out = torch.empty(0, 3)\nfor row in x:\n    out = torch.cat([out, (row * len(out))[None]])\nreturn out",
        "used while it grows",
    ),
    "put before what was there": (
        "out = torch.empty(0, 3)\nfor row in x:\n    out = torch.cat([row[None], out])\nreturn out",
        "needs its own value of the iteration before",
    ),
}


@pytest.mark.parametrize("name", DECLINED)
def test_what_is_no_row_after_row_is_declined(name):
    body, reason = DECLINED[name]
    with pytest.raises(DeclinedError, match=reason):
        rewritten(source_of(body, "x"), [torch.ones(4, 3)])
