"""Elements and numbers set right beside the loop go into the kernel with it, where that changes nothing."""

import pytest
import torch

x = torch.tensor([0.5, -1.0, 2.0, 0.25, -3.0, 1.0])

# name -> (the forward's body, what the kernel has of it and what stays outside)
TAKEN = {
    "an element before": (
        """
        y = torch.zeros_like(x)
        y[0] = 2 * x[0]

        for t in range(1, len(x)):
            y[t] = 0.5 * y[t - 1] + x[t]
        return y
        """,
        ["y[0] = 2 * x[0]"],
    ),
    "a number before, an element after": (
        """
        y = torch.zeros_like(x)
        carry = torch.zeros_like(x[0])
        for t in range(len(x) - 1, 0, -1):
            carry = carry + x[t]
            y[t] = carry
            carry = 0.5 * carry
        y[0] = carry + x[0]
        return y
        """,
        ["carry = 0.0", "y[0] = carry + x[0]"],
    ),
    "a number that is read after the loop": (
        """
        y = torch.zeros_like(x)
        s = x[0]
        y[0] = s * s
        for t in range(1, len(x)):
            s = 0.5 * s + x[t]
            y[t] = s
        y[-1] += s
        return y, s
        """,
        ["s = x[0]", "y[0] = s * s", "y[-1] += s"],
    ),
    "one of Python's numbers": (
        """
        y = torch.zeros_like(x)
        s = 0.25
        for t in range(len(x)):
            s = 0.5 * s + x[t].item()
            y[t] = s
        return y, s
        """,
        ["s = 0.25"],
    ),
}

OUTSIDE = {
    "a row": (
        """
        y = torch.zeros(len(x), 2)
        y[0] = x[0]
        for t in range(1, len(x)):
            for j in range(2):
                y[t, j] = 0.5 * y[t - 1, j] + x[t]
        return y
        """,
        ["y[0] = x[0]"],
    ),
    "what shares a line": (
        """
        y = torch.zeros_like(x); y[0] = x[0]
        for t in range(1, len(x)):
            y[t] = 0.5 * y[t - 1] + x[t]
        return y
        """,
        ["y[0] = x[0]"],
    ),
    "a number that is changed in place": (
        """
        y, z = torch.zeros_like(x), x.clone()
        s = z[1]
        for t in range(len(x)):
            s += x[t]
            y[t] = s
        return y, z
        """,
        ["s = z[1]"],
    ),
    "a number that what goes along needs as it was": (
        """
        y, s = torch.zeros_like(x), 3.0
        y[0] = s
        s = 0.25
        for t in range(1, len(x)):
            s = 0.5 * s + x[t].item()
            y[t] = s + y[t - 1]
        return y
        """,
        ["y[0] = s"],
    ),
    "an element that the loop is handed as a number": (
        """
        y, z = torch.zeros_like(x), x.clone()
        first = z[0]
        z[0] = 7.0
        for t in range(1, len(x)):
            y[t] = first * y[t - 1] + z[t]
        return y, z
        """,
        ["z[0] = 7.0"],
    ),
    "what shares a line below": (
        """
        y = torch.zeros_like(x)
        for t in range(1, len(x)):
            y[t] = 0.5 * y[t - 1] + x[t]
        y[0] = x[0]; return y
        """,
        ["y[0] = x[0]"],
    ),
    "what has a comment below it": (
        """
        y = torch.zeros_like(x)
        y[0] = x[0]
        # a filter
        for t in range(1, len(x)):
            y[t] = 0.5 * y[t - 1] + x[t]
        return y
        """,
        ["y[0] = x[0]"],
    ),
    "a number that is a view of what goes along": (
        """
        y, z = torch.zeros_like(x), x.clone()
        s = z[0]
        z[0] = 7.0
        for t in range(len(x)):
            y[t] = s
            s = 0.5 * s + x[t]
        return y, z
        """,
        ["s = z[0]"],
    ),
    "a call that nobody knows": (
        """
        y = torch.zeros_like(x)
        y[0] = torch.special.zeta(x[2], x[5])
        for t in range(1, len(x)):
            y[t] = 0.5 * y[t - 1] + x[t]
        return y
        """,
        ["torch.special.zeta"],
    ),
    "an index that nothing shows to be in range": (
        """
        y, at = torch.zeros_like(x), x.argmax()
        y[at] = x[0]
        for t in range(1, len(x)):
            y[t] = 0.5 * y[t - 1] + x[t]
        return y
        """,
        ["y[at] = x[0]"],
    ),
}
ARGUMENTS = (x, x[:1], x[:0], x / 0, x.round())


@pytest.mark.parametrize("name", TAKEN)
def test_it_goes_along_and_the_old_path_keeps_it(bench, name):
    body, lines = TAKEN[name]
    original, candidate, proposal = bench.compiled(bench.forward(body), [x])
    assert "boundscheck" not in proposal.added
    for line in lines:
        assert f"    {line}\n" in proposal.added + "\n"
    for argument in (*ARGUMENTS, x.bfloat16()):
        assert bench.difference(original, candidate, [argument]) == ""


@pytest.mark.parametrize("name", OUTSIDE)
def test_it_stays_outside(bench, name):
    body, lines = OUTSIDE[name]
    original, candidate, proposal = bench.compiled(bench.forward(body), [x])
    assert not any(line in proposal.added for line in lines)
    for argument in ARGUMENTS if name.startswith("a number that is") else ():
        assert bench.difference(original, candidate, [argument]) == ""
