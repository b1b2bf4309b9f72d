"""Sums, products, counts become array code: the lines that come out, and that they do what the loop did."""

import pytest
from tests.doctor.rewrite.loops.rewriting import assert_rewritten
from torch import rand, randint, randn

# name -> (signature, inputs for n and m, the function's body, what comes out)
CASES = {
    "two tensors in step": (
        "x, y",
        lambda n, m: [randn(n), randn(n)],
        """
        total = 0.0
        for a, b in zip(x, y):
            total = total + (a - b) ** 2
        return total / len(x)
        """,
        "n = min(len(x), len(y))\ntotal = ((x[:n] - y[:n]) ** 2).sum()",
    ),
    "a generator": (
        "x, y",
        lambda n, m: [randn(n), randn(n)],
        """
        total = sum((a - b) ** 2 for a, b in zip(x, y))
        return total / len(x)
        """,
        ("n = min(len(x), len(y))\ntotal_2 = 0\ntotal_2 = total_2 + ((x[:n] - y[:n]) ** 2).sum()\ntotal = total_2"),
    ),
    "Python's max with 0": (
        "x, y",
        lambda n, m: [randn(n), randn(n).sign()],
        """
        loss = 0
        for i in range(len(x)):
            loss += max(0, 1 - y[i] * x[i])
        return loss / len(x)
        """,
        "loss = torch.where(1 - y * x > 0, 1 - y * x, 0).sum()",
    ),
    "a condition around two summands": (
        "a, b, y, margin",
        lambda n, m: [randn(n, m), randn(n, m), randint(0, 2, (n,)), 1.0],
        """
        loss = 0.0
        for i in range(a.shape[0]):
            d = torch.norm(a[i] - b[i])
            if y[i] == 1:
                loss = loss + d ** 2
            else:
                loss = loss + torch.clamp(margin - d, min=0) ** 2
        return loss / a.shape[0]
        """,
        (
            "d = torch.norm(a - b, dim=-1)\n"
            "loss = torch.where(y == 1, d ** 2, torch.clamp(margin - d, min=0) ** 2).sum()"
        ),
    ),
    "a name chosen by a condition": (
        "p, t, g",
        lambda n, m: [rand(n) * 0.8 + 0.1, randint(0, 2, (n,)), 2.0],
        """
        loss = 0.0
        for i in range(p.shape[0]):
            pt = p[i] if t[i] == 1 else 1 - p[i]
            loss = loss - (1 - pt) ** g * torch.log(pt)
        return loss / p.shape[0]
        """,
        ("pt = torch.where(t == 1, p, 1 - p)\nloss = -((1 - pt) ** g @ torch.log(pt))"),
    ),
    "logarithms under a condition": (
        "p, q",
        lambda n, m: [rand(n) + 0.1, rand(n) + 0.1],
        """
        s = 0.0
        for i in range(len(p)):
            if p[i] > 0:
                s += p[i] * torch.log(p[i] / q[i])
        return s
        """,
        "s = torch.where(p > 0, p * torch.log(torch.where(p > 0, p / torch.where(p > 0, q, 1), 1)), 0).sum()",
    ),
    "two sums at once": (
        "p, t",
        lambda n, m: [rand(n, m), randint(0, 2, (n, m)).float()],
        """
        inter = 0.0
        total = 0.0
        for i in range(p.shape[0]):
            for j in range(p.shape[1]):
                inter = inter + p[i, j] * t[i, j]
                total = total + p[i, j] + t[i, j]
        return 1 - 2 * inter / total
        """,
        ("inter = (p * t).sum()\ntotal = (p + t).sum()"),
    ),
    "a product": (
        "x",
        lambda n, m: [randn(n)],
        """
        p = 1.0
        for i in range(len(x)):
            p *= x[i]
        return p
        """,
        "p = x.prod()",
    ),
    "a flag": (
        "x",
        lambda n, m: [randn(n)],
        """
        found = False
        for i in range(len(x)):
            if x[i] > 1.5:
                found = True
        return found
        """,
        "found = (x > 1.5).any().item()",
    ),
    "a count under two conditions": (
        "x",
        lambda n, m: [randn(n, m)],
        """
        c = 0
        for i in range(x.shape[0]):
            for j in range(x.shape[1]):
                if x[i, j] > 0 and x[i, j] < 1:
                    c += 1
        return c
        """,
        "c = ((x > 0) & (x < 1)).sum().item()",
    ),
    "a sum of numbers and a count": (
        "x, y",
        lambda n, m: [randn(n, m), randn(n, m)],
        """
        total = 0.0
        n = 0
        for i in range(x.shape[0]):
            for j in range(x.shape[1]):
                total += (x[i, j].item() - y[i, j].item()) ** 2
                n += 1
        return total / n
        """,
        ("total = ((x - y) ** 2).sum().item()\nn = x.shape[0] * x.shape[1]"),
    ),
    "sums around a mean": (
        "x, y",
        lambda n, m: [randn(n), randn(n)],
        """
        mean = sum(y) / len(y)
        ss = 0.0
        st = 0.0
        for i in range(len(y)):
            ss += (y[i] - x[i]) ** 2
            st += (y[i] - mean) ** 2
        return 1 - ss / st
        """,
        ("ss = ((y - x) ** 2).sum()\nst = ((y - mean) ** 2).sum()"),
    ),
    "a sum over rows": (
        "x",
        lambda n, m: [randn(n, m)],
        """
        total = 0.0
        for i in range(x.shape[0]):
            total += torch.logsumexp(x[i], dim=0)
        return total
        """,
        "total = torch.logsumexp(x, -1).sum()",
    ),
    "what a table picks of every row": (
        "x, t",
        lambda n, m: [randn(n, m), randint(0, 1, (n,))],
        """
        loss = 0.0
        for i in range(x.shape[0]):
            loss = loss - torch.log_softmax(x[i], dim=0)[t[i]]
        return loss / x.shape[0]
        """,
        "loss = -torch.log_softmax(x, dim=-1)[torch.arange(x.shape[0]), t].sum()",
    ),
    "a triangle": (
        "A, x",
        lambda n, m: [randn(n, n), randn(n)],
        """
        n = len(x)
        y = torch.zeros_like(x)
        for i in range(n):
            for j in range(i + 1):
                y[i] += A[i, j] * x[j]
        return y
        """,
        "y = (A[:n, :n] * x).tril().sum(-1)",
    ),
    "a triangle without its diagonal": (
        "A",
        lambda n, m: [randn(n, n)],
        """
        n = A.shape[0]
        s = 0.0
        for i in range(n):
            for j in range(i):
                s += A[i, j]
        return s
        """,
        "s = A[:, :max(n - 1, 0)].tril(-1).sum()",
    ),
    "a count for every element": (
        "x",
        lambda n, m: [randn(n)],
        """
        rank = torch.zeros(len(x))
        for i in range(len(x)):
            for j in range(len(x)):
                if x[j] < x[i]:
                    rank[i] += 1
        return rank
        """,
        "rank = (x < x[:, None]).sum(-1).to(torch.empty(0))",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_array_code_comes_out_and_does_what_the_loop_did(name):
    assert_rewritten(*CASES[name])
