"""Sums of products become array code: the lines that come out, and that they do what the loop did."""

import pytest
from tests.doctor.rewrite.loops.rewriting import assert_rewritten
from torch import randn

# name -> (signature, inputs for n and m, the function's body, what comes out)
CASES = {
    "dot products of all pairs": (
        "q, k",
        lambda n, m: [randn(n, m), randn(n + 1, m)],
        """
        S = torch.zeros(q.shape[0], k.shape[0])
        for i in range(q.shape[0]):
            for j in range(k.shape[0]):
                S[i, j] = torch.dot(q[i], k[j]) / math.sqrt(q.shape[1])
        return S
        """,
        "S[...] = q @ k.T / math.sqrt(q.shape[1])",
    ),
    "a quadratic form of every row": (
        "x, A",
        lambda n, m: [randn(n, m), randn(m, m)],
        """
        out = torch.zeros(x.shape[0])
        for i in range(x.shape[0]):
            out[i] = x[i] @ A @ x[i]
        return out
        """,
        "out[...] = (x @ A * x).sum(-1)",
    ),
    "a bilinear form": (
        "x, A, y",
        lambda n, m: [randn(n), randn(n, m), randn(m)],
        """
        s = 0.0
        for i in range(len(x)):
            for j in range(len(y)):
                s += x[i] * A[i, j] * y[j]
        return s
        """,
        "s = torch.einsum('i,ij,j->', x, A, y)",
    ),
    "stacks of matrices": (
        "A, B",
        lambda n, m: [randn(2, n, m), randn(2, m, 3)],
        """
        out = torch.zeros(A.shape[0], A.shape[1], B.shape[2])
        for b in range(A.shape[0]):
            out[b] = A[b] @ B[b]
        return out
        """,
        "out[...] = A @ B",
    ),
    "a sum of outer products": (
        "x",
        lambda n, m: [randn(n, m)],
        """
        C = torch.zeros(x.shape[1], x.shape[1])
        for i in range(x.shape[0]):
            C += torch.outer(x[i], x[i])
        return C / x.shape[0]
        """,
        "C += (x.unsqueeze(-1) * x.unsqueeze(-2)).sum(0)",
    ),
    "a convolution over channels": (
        "x, w",
        lambda n, m: [randn(2, 3, n + 2, m + 2), randn(4, 3, 2, 2)],
        """
        N, C, H, W = x.shape
        K, _, kh, kw = w.shape
        y = torch.zeros(N, K, H - kh + 1, W - kw + 1)
        for n in range(N):
            for f in range(K):
                for i in range(H - kh + 1):
                    for j in range(W - kw + 1):
                        y[n, f, i, j] = (x[n, :, i:i + kh, j:j + kw] * w[f]).sum()
        return y
        """,
        "y[...] = torch.einsum('iklxyz,jxyz->ijkl', x.unfold(2, kh, 1).unfold(3, kw, 1).permute(0, 2, 3, 1, 4, 5), w)",
    ),
    "a matrix times every row": (
        "x, W",
        lambda n, m: [randn(n, m), randn(2, m)],
        """
        out = []
        for i in range(x.shape[0]):
            out.append(W @ x[i])
        return torch.stack(out, dim=0)
        """,
        "return x @ W.T",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_array_code_comes_out_and_does_what_the_loop_did(name):
    assert_rewritten(*CASES[name])
