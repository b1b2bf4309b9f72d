"""Sums of products become array code: the lines that come out, and that they do what the loop did."""

import math

import pytest
from tests.doctor.rewrite.loops.rewriting import PATH, assert_rewritten, assert_same, ran, seen_of, site_of, source_of
from torch import randn
from torch.testing import assert_close

from gradwright.doctor.rewrite.loops import compile_loop
from gradwright.doctor.rewrite.source_text import SourceText

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
        "S = (q @ k.T / math.sqrt(q.shape[1])).to(torch.empty(0))",
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
        "out = (x @ A * x).sum(-1).to(torch.empty(0))",
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
        "s = (x[:, None] * A * y).sum()",
    ),
    "a bilinear form of every row, for several matrices": (
        "x, w, y",
        lambda n, m: [randn(n, m), randn(2, m, n), randn(n, n)],
        """
        out = torch.zeros(x.shape[0], w.shape[0])
        for b in range(x.shape[0]):
            for k in range(w.shape[0]):
                for i in range(x.shape[1]):
                    for j in range(y.shape[1]):
                        out[b, k] += x[b, i] * w[k, i, j] * y[b, j]
        return out
        """,
        "out = torch.einsum('ikl,jkl->ij', x[:, :, None] * y[:, None], w).to(torch.empty(0)).contiguous()",
    ),
    "products that a loop of one factor alone sums": (
        "q, k",
        lambda n, m: [randn(n, m), randn(n + 1, m)],
        """
        out = torch.zeros(q.shape[0])
        for i in range(q.shape[0]):
            for j in range(k.shape[0]):
                for d in range(q.shape[1]):
                    out[i] += q[i, d] * k[j, d]
        return out
        """,
        "out = torch.einsum('ik,jk->ij', q, k).sum(1).to(torch.empty(0))",
    ),
    "sums of a product of rows, over other rows": (
        "q, k",
        lambda n, m: [randn(n, m), randn(n + 1, m)],
        """
        out = torch.zeros(q.shape[0])
        for i in range(q.shape[0]):
            for j in range(k.shape[0]):
                out[i] += (q[i] * k[j]).sum()
        return out
        """,
        "out = torch.einsum('ix,jx->ij', q, k).sum(1).to(torch.empty(0))",
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
        "windows = x.unfold(2, kh, 1).unfold(3, kw, 1)\n"
        "part = (F.conv2d(x, w) if w.numel() else torch.einsum('nchwxy,fcxy->nfhw', windows, w)).to(torch.empty(0))\n"
        "y = part.contiguous()",
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


SEVERAL = CASES["a bilinear form of every row, for several matrices"]


def forms_of(case, args):
    signature, _, body, _ = case
    text = source_of(body, signature)
    site = site_of(text)
    return text, compile_loop(SourceText(PATH, text), site, seen_of(text, site, args))


def test_a_product_of_three_has_a_second_form_that_multiplies_in_the_loops_order():
    text, (_, second) = forms_of(SEVERAL, SEVERAL[1](4, 3))
    assert "(x[:, None, :, None] * w * y[:, None, None]).sum((2, 3))" in second.new_text
    assert_same(text, second.new_text, SEVERAL[1](4, 3))
    args = SEVERAL[1](4, 3)
    args[2][0, 1] = math.inf  # gradients too: of sums that were made before, they would be infinite instead of NaN
    assert_same(text, second.new_text, args)


def test_the_second_form_is_not_offered_where_the_whole_product_is_large(monkeypatch):
    monkeypatch.setattr("gradwright.doctor.rewrite.loops.contraction.SMALL_PRODUCT", 4 * 2 * 3 * 4 - 1)
    _, found = forms_of(SEVERAL, SEVERAL[1](4, 3))
    assert ["einsum" in one.new_text for one in found] == [True]


@pytest.mark.parametrize("name", ["a bilinear form of every row, for several matrices", "a bilinear form"])
def test_an_infinity_is_multiplied_before_anything_is_summed(name):
    """inf * (1 - 2) is -inf, and inf * 1 - inf * 2 is NaN, as in the loop."""
    text, (first, *_) = forms_of(CASES[name], CASES[name][1](4, 3))
    for position in range(3):
        args = [one.detach() for one in CASES[name][1](4, 3)]
        args[position].view(-1)[1] = math.inf
        values_are_same(text, first.new_text, args)


@pytest.mark.parametrize("name", [one for one in CASES if "loop of one factor" in one or "over other rows" in one])
def test_an_infinity_meets_every_term_that_it_meets_in_the_loop(name):
    text, (first, *_) = forms_of(CASES[name], CASES[name][1](4, 3))
    q, k = CASES[name][1](4, 3)
    q[1, 2] = math.inf
    values_are_same(text, first.new_text, [q, k])


def values_are_same(before, after, args):
    _, results, *_ = ran(before, args, track=False)
    _, found, *_ = ran(after, args, track=False)
    assert_close(found[0], results[0], rtol=1e-5, atol=1e-5, equal_nan=True)
