"""Elements and rows, each by itself become array code: the lines that come out, and that they do what the loop did."""

import pytest
from tests.doctor.rewrite.loops.rewriting import assert_rewritten
from torch import rand, randn

from gradwright.ground.torch_versions.ties import find_ties

# name -> (signature, inputs for n and m, the function's body, what comes out)
CASES = {
    "a tensor of the caller's is written in place": (
        "a, x, y",
        lambda n, m: [0.5, randn(n), randn(n)],
        """
        for i in range(len(x)):
            y[i] = a * x[i] + y[i]
        return y
        """,
        "y[:len(x)] += a * x",
    ),
    "a stencil of shifted reads": (
        "u",
        lambda n, m: [randn(n + 2, m + 2)],
        """
        v = u.clone()
        H, W = u.shape
        for i in range(1, H - 1):
            for j in range(1, W - 1):
                v[i, j] = 0.25 * (u[i - 1, j] + u[i + 1, j] + u[i, j - 1] + u[i, j + 1])
        return v
        """,
        "v[1:-1, 1:-1] = 0.25 * (u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:])",
    ),
    "rows with names for what is computed of them": (
        "x",
        lambda n, m: [randn(n, m)],
        """
        out = torch.zeros_like(x)
        for i in range(x.shape[0]):
            m = x[i].max()
            e = torch.exp(x[i] - m)
            out[i] = e / e.sum()
        return out
        """,
        ("m = x.amax(-1)\ne = torch.exp(x - m[:, None])\nout = e / e.sum(-1)[:, None]"),
    ),
    "the same elements in two loops": (
        "x",
        lambda n, m: [randn(n, m)],
        """
        out = torch.zeros_like(x)
        for i in range(x.shape[0]):
            s = 0.0
            for j in range(x.shape[1]):
                s += torch.exp(x[i, j])
            for j in range(x.shape[1]):
                out[i, j] = torch.exp(x[i, j]) / s
        return out
        """,
        ("s = torch.exp(x).sum(-1)\nout = torch.exp(x) / s[:, None]"),
    ),
    "columns": (
        "x",
        lambda n, m: [randn(n + 2, m)],
        """
        out = torch.empty_like(x)
        for j in range(x.shape[1]):
            col = x[:, j]
            out[:, j] = (col - col.mean()) / torch.sqrt(col.var(unbiased=False) + 1e-5)
        return out
        """,
        "out[...] = ((x.T - x.T.mean(-1)[:, None]) / torch.sqrt(x.T.var(-1, unbiased=False) + 1e-5)[:, None]).T",
    ),
    "a condition of indices": (
        "S",
        lambda n, m: [randn(n, n)],
        """
        n = S.shape[0]
        out = S.clone()
        for i in range(n):
            for j in range(n):
                if j > i:
                    out[i, j] = float('-inf')
        return out
        """,
        "out[:, :n] = torch.where(torch.arange(n) > torch.arange(n)[:, None], float('-inf'), out[:, :n])",
    ),
    "a guard on the element that is written": (
        "x",
        lambda n, m: [randn(n, m)],
        """
        for i in range(x.shape[0]):
            for j in range(x.shape[1]):
                if x[i, j] < 0:
                    x[i, j] = 0
        return x
        """,
        "x[...] = torch.where(x < 0, 0, x) if x.requires_grad else x.clamp(min=0)",
    ),
    "pairs, with Python's min and max": (
        "a, b",
        lambda n, m: [rand(n, 4), rand(m, 4)],
        """
        out = torch.zeros(a.shape[0], b.shape[0])
        for i in range(a.shape[0]):
            for j in range(b.shape[0]):
                x1 = max(a[i, 0], b[j, 0])
                y1 = max(a[i, 1], b[j, 1])
                x2 = min(a[i, 2], b[j, 2])
                y2 = min(a[i, 3], b[j, 3])
                inter = max(x2 - x1, 0) * max(y2 - y1, 0)
                out[i, j] = inter
        return out
        """,
        (
            "x1 = torch.where(b[:, 0] > a[:, 0, None], b[:, 0], a[:, 0, None])\n"
            "y1 = torch.where(b[:, 1] > a[:, 1, None], b[:, 1], a[:, 1, None])\n"
            "x2 = torch.where(b[:, 2] < a[:, 2, None], b[:, 2], a[:, 2, None])\n"
            "y2 = torch.where(b[:, 3] < a[:, 3, None], b[:, 3], a[:, 3, None])\n"
            + (
                "out = ((x2 - x1).clamp(min=0) * (y2 - y1).clamp(min=0)).to(torch.empty(0)).contiguous()"
                if find_ties().passes_at_numbers
                else "part = (torch.where(0 > x2 - x1, 0, x2 - x1) * torch.where(0 > y2 - y1, 0, y2 - y1))"
                ".to(torch.empty(0))\nout = part.contiguous()"
            )
        ),
    ),
    "numbers of the loop's variable": (
        "k, s",
        lambda n, m: [5, 1.5],
        """
        g = torch.zeros(k)
        for i in range(k):
            g[i] = math.exp(-((i - k // 2) ** 2) / (2 * s ** 2))
        return g
        """,
        "g = torch.exp((-(torch.arange(k) - k // 2) ** 2).double() / (2 * s ** 2)).to(torch.empty(0))",
    ),
    "powers of the loop's variable": (
        "x, d",
        lambda n, m: [randn(n), 4],
        """
        V = torch.zeros(len(x), d)
        for i in range(len(x)):
            for j in range(d):
                V[i, j] = x[i] ** j
        return V
        """,
        "V = (x[:, None] ** torch.arange(d)).to(torch.empty(0), copy=True)",
    ),
    "an index that is no plain one": (
        "c",
        lambda n, m: [randn(n)],
        """
        n = len(c)
        T = torch.zeros(n, n)
        for i in range(n):
            for j in range(n):
                T[i, j] = c[abs(i - j)]
        return T
        """,
        "T = c[abs(torch.arange(n)[:, None] - torch.arange(n))].to(torch.empty(0))",
    ),
    "an index that wraps around": (
        "c",
        lambda n, m: [randn(n)],
        """
        n = len(c)
        T = torch.zeros(n, n)
        for i in range(n):
            for j in range(n):
                T[i, j] = c[(i - j) % n]
        return T
        """,
        "T = c[(torch.arange(n)[:, None] - torch.arange(n)) % n].to(torch.empty(0))",
    ),
    "a row function of torch": (
        "x, W, b",
        lambda n, m: [randn(n, m), randn(4, m), randn(4)],
        """
        out = torch.zeros(x.shape[0], 4)
        for i in range(x.shape[0]):
            out[i] = F.linear(x[i], W, b)
        return out
        """,
        "out[...] = F.linear(x, W, b)",
    ),
    "fixed indices beside the loops": (
        "x",
        lambda n, m: [randn(n, m, 2)],
        """
        out = torch.zeros(x.shape[0], x.shape[1])
        for i in range(x.shape[0]):
            for j in range(x.shape[1]):
                out[i, j] = x[i, j, 0] * x[i, j, 1]
        return out
        """,
        "out = (x[:, :, 0] * x[:, :, 1]).to(torch.empty(0)).contiguous()",
    ),
    "a counting while": (
        "x",
        lambda n, m: [randn(n)],
        """
        out = torch.zeros_like(x)
        i = 0
        while i < len(x):
            out[i] = x[i] ** 2
            i += 1
        return out
        """,
        "out = x ** 2",
    ),
    "only the inner loop carries": (
        "x, a",
        lambda n, m: [randn(n, m), 0.5],
        """
        h = torch.zeros_like(x)
        for i in range(x.shape[0]):
            for t in range(1, x.shape[1]):
                h[i, t] = a * h[i, t - 1] + x[i, t]
        return h
        """,
        ("for t in range(1, x.shape[1]):\nh[:, t] = a * h[:, t - 1] + x[:, t]"),
    ),
    "rows with their number": (
        "x",
        lambda n, m: [randn(n, m)],
        """
        out = torch.zeros(len(x))
        for i, row in enumerate(x):
            out[i] = row.norm()
        return out
        """,
        "out = x.norm(dim=-1).to(torch.empty(0), copy=True)",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_array_code_comes_out_and_does_what_the_loop_did(name):
    assert_rewritten(*CASES[name])
