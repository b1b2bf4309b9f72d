"""Lists that are filled become array code: the lines that come out, and that they do what the loop did."""

import pytest
from tests.doctor.rewrite.loops.rewriting import assert_rewritten
from torch import rand, randint, randn

# name -> (signature, inputs for n and m, the function's body, what comes out)
CASES = {
    "rows stacked": (
        "x, w",
        lambda n, m: [randn(n, m), randn(m)],
        """
        out = []
        for row in x:
            out.append(torch.softmax(row * w, dim=0))
        return torch.stack(out)
        """,
        "return torch.softmax(x * w, dim=-1)",
    ),
    "numbers made a tensor": (
        "x",
        lambda n, m: [randn(n)],
        """
        out = []
        for i in range(len(x)):
            out.append(x[i].item() * 2 + 1)
        return torch.tensor(out)
        """,
        "return (x * 2 + 1).detach().to(torch.float32)",
    ),
    "a mean of a list": (
        "p, t",
        lambda n, m: [rand(n) + 0.1, randint(0, 2, (n,)).float()],
        """
        losses = []
        for i in range(len(p)):
            losses.append(-(t[i] * torch.log(p[i])))
        return sum(losses) / len(losses)
        """,
        "return (-(t * torch.log(p))).mean()",
    ),
    "a list that is read elsewhere": (
        "x",
        lambda n, m: [randn(n)],
        """
        out = []
        for v in x:
            out.append(v.item() ** 2)
        return out
        """,
        "out = (x.double() ** 2).tolist()",
    ),
    "a comprehension": (
        "x",
        lambda n, m: [randn(n, m)],
        """
        return torch.stack([row.sum() for row in x])
        """,
        "return x.sum(-1)",
    ),
    "lists in a list": (
        "x",
        lambda n, m: [randn(n, m)],
        """
        rows = []
        for i in range(x.shape[0]):
            row = []
            for j in range(x.shape[1]):
                row.append(x[i, j] * 2)
            rows.append(torch.stack(row))
        return torch.stack(rows)
        """,
        "return x * 2",
    ),
    "rows put behind one another": (
        "x",
        lambda n, m: [randn(n, m)],
        """
        parts = []
        for i in range(x.shape[0]):
            parts.append(x[i] * 2)
        return torch.cat(parts)
        """,
        "return (x * 2).flatten(0, 1)",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_array_code_comes_out_and_does_what_the_loop_did(name):
    assert_rewritten(*CASES[name])
