"""Windows become array code: the lines that come out, and that they do what the loop did."""

import pytest
from tests.doctor.rewrite.loops.rewriting import assert_rewritten, assert_same, rewritten, source_of
from torch import randn

# name -> (signature, inputs for n and m, the function's body, what comes out)
CASES = {
    "a moving mean": (
        "x, k",
        lambda n, m: [randn(n + 3), 3],
        """
        out = torch.zeros(len(x) - k + 1)
        for i in range(len(x) - k + 1):
            out[i] = x[i:i + k].mean()
        return out
        """,
        "out = x.unfold(0, k, 1).mean(-1).to(torch.empty(0))",
    ),
    "both ends of a window at once": (
        "x, k",
        lambda n, m: [randn(n + 3), 3],
        """
        out = torch.zeros(len(x) - k + 1)
        for i in range(len(x) - k + 1):
            first, beyond = i, i + k
            out[i] = x[first:beyond].mean()
        return out
        """,
        "out = x.unfold(0, k, 1).mean(-1).to(torch.empty(0))",
    ),
    "blocks side by side": (
        "x",
        lambda n, m: [randn(2 * n + m)],
        """
        h = len(x)
        out = torch.zeros(h // 2)
        for i in range(h // 2):
            out[i] = x[2 * i:2 * i + 2].max()
        return out
        """,
        "out = x[:2 * (h // 2)].unflatten(0, (-1, 2)).amax(-1).to(torch.empty(0), copy=True)",
    ),
    "windows at every s-th element": (
        "x, w, s",
        lambda n, m: [randn(2 * n + 7), randn(3), 2],
        """
        k = len(w)
        n_out = (len(x) - k) // s + 1
        out = torch.zeros(n_out)
        for i in range(n_out):
            out[i] = (x[i * s:i * s + k] * w).sum()
        return out
        """,
        "out = (x.unfold(0, k, s) * w).sum(-1).to(torch.empty(0))",
    ),
    "the same, element by element": (
        "x, w, s",
        lambda n, m: [randn(2 * n + 7), randn(3), 2],
        """
        k = len(w)
        out = torch.zeros((len(x) - k) // s + 1)
        for i in range(len(out)):
            for j in range(k):
                out[i] += x[i * s + j] * w[j]
        return out
        """,
        "out = (x.unfold(0, k, s) @ w).to(torch.empty(0))",
    ),
    "every s-th element": (
        "x, s",
        lambda n, m: [randn(3 * n + 1), 2],
        """
        m = len(x) // s
        out = torch.zeros(m)
        for i in range(m):
            out[i] = x[i * s] ** 2
        return out
        """,
        "out = (x[:m * s:s] ** 2).to(torch.empty(0))",
    ),
    "windows over two axes": (
        "x, w, s",
        lambda n, m: [randn(2, 3, n + 5, m + 4), randn(4, 3, 3, 2), 2],
        """
        H, W = w.shape[2], w.shape[3]
        h, v = (x.shape[2] - H) // s + 1, (x.shape[3] - W) // s + 1
        out = torch.zeros(x.shape[0], w.shape[0], h, v)
        for b in range(x.shape[0]):
            for f in range(w.shape[0]):
                for i in range(h):
                    for j in range(v):
                        out[b, f, i, j] = (x[b, :, i * s:i * s + H, j * s:j * s + W] * w[f]).sum()
        return out
        """,
        "windows = x.unfold(2, H, s).unfold(3, W, s)\n"
        "part = F.conv2d(x, w, stride=s) if w.numel() else torch.einsum('nchwxy,fcxy->nfhw', windows, w)\n"
        "out = part.to(torch.empty(0)).contiguous()",
    ),
    "windows, one beside the other": (
        "x, k",
        lambda n, m: [randn(m, n + 3), 3],
        """
        columns = []
        for i in range(x.shape[1] - k + 1):
            columns.append(x[:, i : i + k])
        return torch.stack(columns, dim=1)
        """,
        "return x.unfold(1, k, 1).clone(memory_format=torch.contiguous_format)",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_array_code_comes_out_and_does_what_the_loop_did(name):
    assert_rewritten(*CASES[name])


def test_rows_that_are_taken_at_once_are_views_of_what_is_written_meanwhile():
    """After ``x[i] = b`` the name a, which is x[i], is b as well."""
    body = "for i in range(len(x)):\n    a, b = x[i], y[i]\n    x[i] = b * 2\n    y[i] = a\nreturn x, y"
    text = source_of(body, "x, y")
    new = rewritten(text, [randn(4, 3), randn(4, 3)]).new_text
    for n in (4, 1, 0):
        assert_same(text, new, [randn(n, 3), randn(n, 3)])
