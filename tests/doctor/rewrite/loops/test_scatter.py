"""Indices out of tables become array code: the lines that come out, and that they do what the loop did."""

import pytest
from tests.doctor.rewrite.loops.rewriting import assert_rewritten
from torch import float64, randint, randn

# name -> (signature, inputs for n and m, the function's body, what comes out)
CASES = {
    "one element of every row": (
        "t, k",
        lambda n, m: [randint(0, 3, (n,)), 3],
        """
        out = torch.zeros(len(t), k)
        for i in range(len(t)):
            out[i, t[i]] = 1
        return out
        """,
        "out[torch.arange(len(t)), t] = 1",
    ),
    "a table of counts": (
        "p, t, k",
        lambda n, m: [randint(0, 3, (n,)), randint(0, 3, (n,)), 3],
        """
        M = torch.zeros(k, k)
        for i in range(len(p)):
            M[t[i], p[i]] += 1
        return M
        """,
        "M.index_put_((t, p), torch.tensor(1.0), accumulate=True)",
    ),
    "rows out of a table": (
        "E, idx",
        lambda n, m: [randn(7, m), randint(0, 7, (n,))],
        """
        out = torch.zeros(len(idx), E.shape[1])
        for i in range(len(idx)):
            out[i] = E[idx[i]]
        return out
        """,
        "out[...] = E[idx]",
    ),
    "rows and counts in the dtype of what they are added to": (
        "x, t, k",
        lambda n, m: [randn(n, m, dtype=float64), randint(0, 3, (n,)), 3],
        """
        sums = torch.zeros(k, x.shape[1], dtype=x.dtype)
        counts = torch.zeros(k, dtype=x.dtype)
        for i in range(len(t)):
            sums[t[i]] += x[i]
            counts[t[i]] += 1
        return sums, counts
        """,
        "sums.index_add_(0, t, x)\ncounts.index_add_(0, t, torch.ones_like(t, dtype=counts.dtype))",
    ),
    "a bin computed in Python's float64": (
        "x, k",
        lambda n, m: [randint(0, 10, (20 * n,)) / 10, 10],
        """
        counts = torch.zeros(k + 1)
        for v in x:
            b = int(v.item() * k)
            if b > k:
                b = k
            counts[b] += 1
        return counts
        """,
        "b = (x.double() * k).long()\n"
        "b = torch.where(k < b, k, b)\n"
        "counts.index_add_(0, b, torch.ones_like(b, dtype=counts.dtype))",
    ),
    "columns out of a table": (
        "x, t, k",
        lambda n, m: [randn(n, m), randint(0, 3, (n,)), 3],
        """
        out = torch.zeros(x.shape[1], k)
        for i in range(x.shape[0]):
            out[:, t[i]] -= x[i]
        return out
        """,
        "out.index_add_(1, t[:x.shape[0]], (-x).T)",
    ),
    "matrices out of a table, from the middle": (
        "x, t, k",
        lambda n, m: [randn(n, m, 2), randint(0, 3, (n,)), 3],
        """
        out = torch.zeros(x.shape[1], k, 2)
        for i in range(len(t)):
            if x[i, 0, 0] > 0:
                out[:, t[i], :] += x[i]
        return out
        """,
        "out.index_add_(1, t[x[:len(t), 0, 0] > 0], x[x[:len(t), 0, 0] > 0].movedim(0, 1))",
    ),
    "a fixed index beside one out of a table": (
        "x, t",
        lambda n, m: [randn(3, 4), randint(0, 4, (n,))],
        """
        out = torch.zeros(len(t))
        for i in range(len(t)):
            out[i] = 2 * x[1, t[i]]
        return out
        """,
        "out = (2 * x[1, t]).to(torch.empty(0))",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_array_code_comes_out_and_does_what_the_loop_did(name):
    assert_rewritten(*CASES[name])
