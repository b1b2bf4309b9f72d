"""Rows that lie one after the other, ``x[i * m + j]``: the lines that come out, and that they do what the loop did."""

import pytest
from tests.doctor.rewrite.loops.rewriting import assert_rewritten, rewritten, source_of
from torch import randn

from gradwright.doctor.rewrite.source_text import DeclinedError

# name -> (signature, inputs for n and m, the function's body, what comes out)
CASES = {
    "written": (
        "x",
        lambda n, m: [randn(n, m)],
        """
        n, m = x.shape
        out = torch.zeros(n * m, dtype=x.dtype)
        for i in range(n):
            for j in range(m):
                out[i * m + j] = x[i, j] * 2
        return out
        """,
        "out.unflatten(0, (n, m))[:] = x * 2",
    ),
    "read": (
        "a, b",
        lambda n, m: [randn(n * m), randn(m)],
        """
        m = len(b)
        n = len(a) // max(m, 1)
        out = torch.zeros(n, dtype=a.dtype)
        for i in range(n):
            for j in range(m):
                out[i] += a[i * m + j] * b[j]
        return out
        """,
        "out = a[:n * m].unflatten(0, (n, m)) @ b",
    ),
    "transposed": (
        "x, n, m",
        lambda n, m: [randn(n * m), n, m],
        """
        out = torch.zeros_like(x)
        for i in range(n):
            for j in range(m):
                out[j * n + i] = x[i * m + j]
        return out
        """,
        "out[:m * n].unflatten(0, (m, n))[:] = x[:n * m].unflatten(0, (n, m)).T",
    ),
    "three indices": (
        "x",
        lambda n, m: [randn(n, m, 2)],
        """
        n, m, k = x.shape
        out = torch.zeros(n * m * k)
        for i in range(n):
            for j in range(m):
                for l in range(k):
                    out[(i * m + j) * k + l] += x[i, j, l] ** 2
        return out
        """,
        "out.unflatten(0, (n, m, k)).add_(x ** 2)",
    ),
    "from the end of each": (
        "x, w",
        lambda n, m: [randn(n, m), randn(n)],
        """
        n, m = x.shape
        out = torch.zeros(2, n * m)
        for b in range(2):
            for i in range(n):
                for j in range(m):
                    out[b, i * m + (m - 1 - j)] = x[i, j] * w[i]
        return out
        """,
        "out.unflatten(1, (n, m))[:] = (x * w[:, None]).flip(-1)",
    ),
    "parts of them": (
        "x, m",
        lambda n, m: [randn(n * m), m],
        """
        n = len(x) // m
        out = torch.zeros(n * m)
        for i in range(n - 1):
            for j in range(1, m):
                out[i * m + j] = x[(i + 1) * m + j - 1]
        return out
        """,
        ("out[:max(n - 1, 0) * m].unflatten(0, (max(n - 1, 0), m))[:, 1:] = x[:n * m].unflatten(0, (n, m))[1:, :-1]"),
    ),
    "none of them": (
        "x, n, m",
        lambda n, m: [randn(40), n, m],
        """
        out = x.clone()
        for i in range(n - 4):
            for j in range(m):
                out[i * m + j] = 5.0
        return out
        """,
        "out[:max(n - 4, 0) * m].unflatten(0, (max(n - 4, 0), m))[:] = 5.0",
    ),
    "each from the one before": (
        "x, m",
        lambda n, m: [randn(n * m), m],
        """
        n = len(x) // m
        out = x.clone()
        for i in range(1, n):
            for j in range(m):
                out[i * m + j] = out[(i - 1) * m + j] * 0.5 + x[i * m + j]
        return out
        """,
        "out[i * m:i * m + m] = out[(i - 1) * m:(i - 1) * m + m] * 0.5 + x[i * m:i * m + m]",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_array_code_comes_out_and_does_what_the_loop_did(name):
    assert_rewritten(*CASES[name])


# name -> (signature, inputs for n and m, the function's body)
DECLINED = {
    "columns beyond the end of a row": (
        "x",
        lambda n, m: [randn(n, m)],
        """
        n, m = x.shape
        out = torch.zeros(n * m + 1)
        for i in range(n):
            for j in range(m + 1):
                out[i * m + j] = x[i, 0] * j
        return out
        """,
    ),
    "rows of another length": (
        "x, s",
        lambda n, m: [randn(n, m), m],
        """
        n, m = x.shape
        out = torch.zeros(n * m)
        for i in range(n):
            for j in range(m):
                out[i * s + j] = x[i, j]
        return out
        """,
    ),
    "a row before the first, which counts from the end": (
        "x, m",
        lambda n, m: [randn(n * m), m],
        """
        n = len(x) // m
        out = x.clone()
        for i in range(n):
            for j in range(m):
                out[i * m + j] = out[(i - 1) * m + j] * 0.5 + x[i * m + j]
        return out
        """,
    ),
    "rows of two lengths": (
        "x, n, m",
        lambda n, m: [randn(n * m), n, m],
        """
        out = x.clone()
        for i in range(n):
            for j in range(m):
                out[i * m + j] = out[j * n + i] * 0.5
        return out
        """,
    ),
    "rows whose length changes": (
        "x, m",
        lambda n, m: [randn(40), m],
        """
        out = torch.zeros(40)
        for i in range(4):
            for j in range(m):
                out[i * m + j] = x[j]
            m = m - 1
        return out
        """,
    ),
}


@pytest.mark.parametrize("name", DECLINED)
def test_where_two_may_be_the_same_element_the_loop_stays(name):
    signature, inputs, body = DECLINED[name]
    with pytest.raises(DeclinedError):
        rewritten(source_of(body, signature), inputs(4, 3))
