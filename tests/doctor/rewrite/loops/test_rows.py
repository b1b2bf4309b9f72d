"""What is done to whole rows becomes array code: the lines that come out, and that they do what the loop did."""

import pytest
from tests.doctor.rewrite.loops.rewriting import assert_rewritten, assert_same, rewritten, source_of
from torch import float64, randint, randn

# name -> (signature, inputs for n and m, the function's body, what comes out)
CASES = {
    "how many axes a row has": (
        "x, w",
        lambda n, m: [randn(n, m), randn(m, 5)],
        """
        total = 0.0
        for i in range(x.shape[0]):
            f = x[i].mm(w) if x[i].dim() > 1 else x[i].matmul(w)
            total = total + f.sum()
        return total
        """,
        "f = x @ w\ntotal = f.sum(-1).sum()",
    ),
    "the same by an attribute": (
        "x",
        lambda n, m: [randn(n, m)],
        """
        out = torch.zeros(x.shape[0])
        for i in range(x.shape[0]):
            out[i] = x[i].sum() if x[i].ndim == 1 else x[i].sum(dim=1).max()
        return out
        """,
        "out = x.sum(-1).to(torch.empty(0))",
    ),
    "among the best k": (
        "x, t",
        lambda n, m: [randn(n, 6), randint(0, 6, (n,))],
        """
        hits = 0
        for i in range(x.shape[0]):
            if t[i] in x[i].topk(2).indices:
                hits += 1
        return hits
        """,
        "hits = (x.topk(2).indices == t[:, None]).any(-1).sum().item()",
    ),
    "not among the first k": (
        "x, t, k",
        lambda n, m: [randn(n, 6), randint(0, 6, (n,)), 2],
        """
        misses = 0
        for i in range(x.shape[0]):
            if t[i] not in x[i].sort(descending=True).indices[:k]:
                misses += 1
        return misses
        """,
        "misses = (~(x.sort(descending=True).indices[:, :k] == t[:, None]).any(-1)).sum().item()",
    ),
    "the values of a pair": (
        "x",
        lambda n, m: [randn(n, 4, m)],
        """
        out = []
        for i in range(x.shape[0]):
            out.append(x[i].max(dim=0).values)
        return torch.stack(out)
        """,
        "return x.max(-2).values",
    ),
    "a list of Python's numbers": (
        "x, qs",
        lambda n, m: [randn(m, dtype=float64), [0.1, 0.5, 0.9]],
        """
        out = []
        for q in qs:
            out.append((x * q).sum())
        return torch.stack(out)
        """,
        "return (x * torch.tensor(qs, dtype=torch.float64)[:, None]).sum(-1)",
    ),
    "rows with an axis to be joined along": (
        "x, y",
        lambda n, m: [randn(n, m), randn(n)],
        """
        out = []
        for j in range(x.shape[1]):
            out.append((y - x[:, j]).unsqueeze(1))
        return torch.cat(out, dim=1)
        """,
        "return (y - x.T).movedim(0, 1).contiguous()",
    ),
    "a number in the dtype that the text asks for": (
        "p",
        lambda n, m: [randn(n)],
        """
        total = 0.0
        for k in range(p.shape[0]):
            total = total + p[k] / torch.tensor(k + 2.0, dtype=p.dtype)
        return total
        """,
        "total = (p / (torch.arange(p.shape[0], dtype=torch.float64) + 2.0).to(p.dtype)).sum()",
    ),
    "what a loop that stays computes for each of its rounds": (
        "A, b",
        lambda n, m: [randn(n, n) + 9, randn(n)],
        """
        x = torch.zeros_like(b)
        n = A.shape[0]
        for i in range(n):
            acc = b[i]
            for j in range(i):
                acc = acc - A[i, j] * x[j].clone()
            x[i] = acc / A[i, i]
        return x
        """,
        "acc = b[i] - A[i, :i] @ x[:i].clone()",
    ),
    "a mask that stands twice in a long line": (
        "similarity, temperature",
        lambda n, m: [randn(n, n), 0.5],
        """
        total = 0.0
        for i in range(similarity.shape[0]):
            for k in range(similarity.shape[0]):
                if k != i:
                    total = total + torch.exp(similarity[i, k] / temperature)
        return total
        """,
        "mask = torch.arange(similarity.shape[0]) != torch.arange(similarity.shape[0])[:, None]\n"
        "total = torch.where(mask, torch.exp(torch.where(mask, similarity / temperature, 0)), 0).sum()",
    ),
    "powers": (
        "x, degree",
        lambda n, m: [randn(n), m],
        """
        columns = []
        for d in range(degree + 1):
            columns.append(x ** d)
        return torch.stack(columns, dim=-1)
        """,
        "return (x ** torch.arange(degree + 1)[:, None]).movedim(0, 1).contiguous()",
    ),
    "classes": (
        "x, labels, classes",
        lambda n, m: [randn(n), randint(0, 3, (n,)), m],
        """
        means = []
        for c in range(classes):
            mask = labels == c
            means.append((x * mask).sum() / (mask.sum() + 1))
        return torch.stack(means)
        """,
        ("mask = labels == torch.arange(classes)[:, None]\nreturn (x * mask).sum(-1) / (mask.sum(-1) + 1)"),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_array_code_comes_out_and_does_what_the_loop_did(name):
    assert_rewritten(*CASES[name])


def test_what_comes_out_may_be_viewed_flat_as_before():
    for body in (
        """
        n, m = x.shape
        out = torch.zeros(m, n, dtype=x.dtype)
        for i in range(n):
            for j in range(m):
                out[j, i] = x[i, j] * 2
        return out.view(-1)
        """,
        """
        columns = []
        for j in range(x.shape[1]):
            columns.append(x[:, j] * 2)
        return torch.stack(columns).view(-1)
        """,
    ):
        text, args = source_of(body, "x"), [randn(4, 3)]
        assert_same(text, rewritten(text, args).new_text, args)
