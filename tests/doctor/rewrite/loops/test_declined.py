"""What array code could get wrong is declined, with a sentence that says why."""

import pytest
import torch
from tests.doctor.rewrite.loops.rewriting import rewritten, source_of

from gradwright.doctor.rewrite.source_text import DeclinedError

# name -> (signature, inputs, the function's body, part of the reason)
CASES = {
    "a recurrence": (
        "x, a",
        [torch.ones(4), 0.5],
        "h = 0.0\nfor i in range(len(x)):\n    h = a * h + x[i]\nreturn h",
        "h needs its own value of the iteration before",
    ),
    "an index that counts from the end": (
        "x, n",
        [torch.ones(6), 5],
        "s = 0.0\nfor i in range(len(x)):\n    s = s + x[n - i]\nreturn s",
        "may be negative, and so count from the end",
    ),
    "a range of the user's own": (
        "x, range",
        [torch.ones(4), range],
        "y = torch.zeros_like(x)\nfor i in range(len(x)):\n    y[i] = x[i] * 2\nreturn y",
        "range means something else in this file",
    ),
    "a function of the user's": (
        "x, h",
        [torch.ones(4), abs],
        "y = torch.zeros_like(x)\nfor i in range(len(x)):\n    y[i] = h(x[i])\nreturn y",
        "may do anything",
    ),
    "the last of equal ones": (
        "x",
        [torch.ones(4)],
        "b = -float('inf')\nk = 0\nfor i in range(len(x)):\n    if x[i] >= b:\n        b, k = x[i], i\nreturn k",
        "the last of equal ones wins",
    ),
    "the last of the best": (
        "x",
        [torch.ones(4)],
        "b = 0.0\nk = 0\nfor i in range(len(x)):\n    if x[i] >= b:\n        b = x[i]\n        k = i\nreturn k",
        "the last of equal ones wins",
    ),
    "a count that may be negative": (
        "x, n",
        [torch.ones(4), 3],
        "s = 0\nfor i in range(n):\n    s += 2\n    x[i] = 1\nreturn s",
        "may be a negative number",
    ),
    "a part of a row that a table names": (
        "x, t",
        [torch.ones(4, 3), torch.zeros(4, dtype=torch.int64)],
        "s = torch.zeros(2, 5)\nfor i in range(len(x)):\n    s[t[i], 1:4] += x[i]\nreturn s",
        "s is added to at a slice beside an index out of a table",
    ),
    "a column that a table names, for every pair": (
        "x, t",
        [torch.ones(4, 3), torch.zeros(4, dtype=torch.int64)],
        "s = torch.zeros(3, 2)\nfor i in range(len(x)):\n    for j in range(4):\n"
        "        if x[i, 0] > j:\n            s[:, t[i]] -= x[i]\nreturn s",
        "a column of s that a table names is added to by iterations of several loops",
    ),
    "rows of different lengths": (
        "x",
        [torch.ones(4, 4)],
        "s = []\nfor i in range(1, len(x)):\n    s.append(x[i, :i].sum())\nreturn torch.stack(s)",
        "a slice",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_it_is_declined_with_its_reason(name):
    signature, args, body, reason = CASES[name]
    with pytest.raises(DeclinedError, match=reason):
        rewritten(source_of(body, signature), args)
