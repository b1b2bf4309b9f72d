"""Partial results become array code: the lines that come out, and that they do what the loop did."""

import pytest
from tests.doctor.rewrite.loops.rewriting import assert_rewritten
from torch import randn

# name -> (signature, inputs for n and m, the function's body, what comes out)
CASES = {
    "a running sum in a name": (
        "x",
        lambda n, m: [randn(n)],
        """
        out = torch.zeros_like(x)
        s = 0.0
        for i in range(len(x)):
            s = s + x[i]
            out[i] = s
        return out
        """,
        "out = x.cumsum(0)",
    ),
    "a running sum in the elements": (
        "x",
        lambda n, m: [randn(n)],
        """
        out = torch.zeros_like(x)
        out[0] = x[0]
        for i in range(1, len(x)):
            out[i] = out[i - 1] + x[i]
        return out
        """,
        "out[1:] = out[0] + x[1:].cumsum(0)",
    ),
    "a running sum before each element": (
        "x",
        lambda n, m: [randn(n)],
        """
        out = torch.zeros_like(x)
        s = 0.0
        for i in range(len(x)):
            out[i] = s
            s = s + x[i]
        return out
        """,
        "out = torch.cat((torch.zeros_like(x[:1]), x[:-1].cumsum(0)))",
    ),
    "a running sum from the end": (
        "x",
        lambda n, m: [randn(n)],
        """
        out = torch.zeros_like(x)
        s = 0.0
        for i in reversed(range(len(x))):
            s += x[i].item()
            out[i] = s
        return out
        """,
        "out = x.flip(0).cumsum(0).flip(0).detach()",
    ),
    "the place of the best": (
        "x",
        lambda n, m: [randn(n)],
        """
        best = -float('inf')
        idx = 0
        for i in range(len(x)):
            if x[i].item() > best:
                best = x[i].item()
                idx = i
        return idx
        """,
        "idx = x.argmax().item()",
    ),
    "the place of the best of every row": (
        "x",
        lambda n, m: [randn(n, m)],
        """
        out = torch.zeros(len(x), dtype=torch.long)
        for i in range(x.shape[0]):
            best = -float('inf')
            k = 0
            for j in range(x.shape[1]):
                if x[i, j] > best:
                    best = x[i, j]
                    k = j
            out[i] = k
        return out
        """,
        "out = x.argmax(-1).to(torch.empty(0, dtype=torch.long))",
    ),
    "the best, from the first on": (
        "x",
        lambda n, m: [randn(n)],
        """
        best = x[0]
        for i in range(1, len(x)):
            if x[i] > best:
                best = x[i]
        return best
        """,
        (
            "highest = x.max(0).values\n"
            "if highest.isnan():  # NaN wins in torch, never in the loop\n"
            "highest = torch.where(x > best, x, best).max(0).values\n"
            "best = highest"
        ),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_array_code_comes_out_and_does_what_the_loop_did(name):
    assert_rewritten(*CASES[name], empty=False)
