"""Dependences between iterations: named where they are, and not where order does not matter."""

from __future__ import annotations

import textwrap

import pytest

from gradwright.doctor.source.affine import needs_earlier
from gradwright.doctor.source.dependence import carried_dependence

CARRIED = [
    (
        """
        for i in range(1,n):
            for j in range(1,m):
                D[i, j] = min(D[i-1, j] + 1, D[i, j-1] + 1)
        """,
        "D[i, j] needs D[i - 1, j]",
    ),
    (
        "for t in range(T): h = a*h + x[t]",
        "h needs its own value",
    ),
    (
        "for t in range(T-1, -1, -1): dh[t] = dh[t+1] * w",
        "dh[t] needs dh[t + 1]",
    ),
    (
        "for t in reversed(range(T-1)): dh[t] = dh[t+1] * w",
        "dh[t] needs dh[t + 1]",
    ),
    (
        """
        for i in range(n):
            s += x[i]
            if s > limit:
                y[i] = 0
        """,
        "if s > limit: reads s",
    ),
    (
        """
        for i in range(n):
            s *= 0.9
            s += x[i]
            y[i] = s
        """,
        "y[i] = s reads s",
    ),
    (
        """
        for i in range(n):
            best = max(best, x[i])
            y[i] = best
        """,
        "y[i] = best reads best",
    ),
    ("for i in range(1, n): y[i] = 0.5 * y[i - 1] + x[i]", "y[i] needs y[i - 1]"),
    ("for i in range(1, n): y[i] = y[i - 1] + y[i - 1] * x[i]", "y[i] needs y[i - 1]"),
    ("for i in range(2, n): y[i] = y[i - 2] + x[i]", "y[i] needs y[i - 2]"),
    ("for i in range(n - 2, -1, -1): y[i] = y[i + 1] + x[i]", "y[i] needs y[i + 1]"),
    ("for t in range(T): h = cell(x[t], h)", "h needs its own value"),
    ("for t in range(T): out[t], (h, c) = lstm(x[t], (h, c))", "c needs its own value"),
    (
        """
        for i in range(n):
            if x[i] > 0:
                kept[k] = x[i]
                k += 1
        """,
        "kept[k] = x[i] reads k",
    ),
    (
        """
        for i in range(n):
            h.mul_(0.9).add_(x[i])
            y[i] = h
        """,
        "h is changed in place by every iteration: h.mul_(0.9).add_(x[i])",
    ),
    (
        """
        for i in range(1, n):
            row = y[i]
            row += y[i - 1] * 0.5
        """,
        "y[i] needs y[i - 1]",
    ),
    ("for i in range(n): y[i] = x[i] + torch.randn(())", "torch.randn(()) draws random numbers"),
    ("for i in range(n): y[i] = F.dropout(x[i])", "F.dropout(x[i]) draws random numbers"),
    (
        """
        for t in range(T):
            h = torch.tanh(x[t] @ W + h @ U)
            out.append(h)
        """,
        "h needs its own value",
    ),
    (
        "for t in range(1,T): alpha[:, t] = torch.logsumexp(alpha[:, t-1] + A, 0)",
        "alpha[:, t] needs alpha[:, t - 1]",
    ),
    (
        """
        for t in range(1,T):
            for j in range(S):
                v[t][j] = max(v[t-1][k] for k in range(S))
        """,
        "v[t][j] needs v[t - 1][k]",
    ),
    (
        "for i in range(n): depth[i] = depth[parent[i]] + 1",
        "depth[i] needs depth[parent[i]]",
    ),
    (
        "for i in range(n): y[i] = y[:i].sum() + x[i]",
        "y[i] needs y[:i]",
    ),
    (
        """
        i = 0
        while i < n:
            y[i+1] = y[i] * 2
            i += 1
        """,
        "y[i + 1] needs y[i]",
    ),
    (
        "for t in range(T): hs.append(a * hs[-1] + x[t])",
        "hs[-1] is what",
    ),
    (
        """
        for t in range(T):
            for b in range(B):
                h[b] = a*h[b] + x[t,b]
        """,
        "h[b] needs its own value",
    ),
    (
        "for t in range(T): self.h = self.h * a + x[t]",
        "self.h needs its own",
    ),
    (
        """
        for i in range(n):
            y[i] = x[i] - prev
            prev = x[i]
        """,
        "reads prev",
    ),
    (
        """
        for t in range(T):
            for i in range(1, n-1): u[i] = u[i] + u[i+1]
        """,
        "u[i] needs u[i + 1]",
    ),
    (
        """
        for k in range(n):
            for i in range(n): s = s*x[i] + k
        """,
        "s needs its own",
    ),
    (
        """
        for b in range(B):
            for i in range(n):
                y[b, i] = y[b].sum()
        """,
        "y[b, i] needs y[b]",
    ),
    (
        "for t in range(T): e = x[t] - e",
        "e needs its own",
    ),
]

FREE = [
    """
    for i in range(n):
        s += x[i]
        y[i] = s
    """,
    """
    for i in range(n):
        p = p * x[i]
        out.append(p)
    """,
    "for i in range(1, n): y[i] = y[i - 1] + x[i] * w[i]",
    """
    for i in range(n):
        for j in range(m): y[i + 1, j] = y[i, j] + x[i, j]
    """,
    """
    for i in range(n):
        for j in range(m):
            if x[i, j] > best:
                best, where = x[i, j], (i, j)
    """,
    "for i in range(n): total.add_(x[i])",
    """
    for i in range(n):
        row = y[i]
        row += x[i]
    """,
    """
    for i in range(n):
        for k in range(m): y[i, k] = x[i, k]**2
    """,
    "for i in range(n): s += x[i]",
    "for i in range(n): s = s + x[i] * 2 - 1",
    """
    for i in range(n):
        if x[i] > best:
            best = x[i]
            where = i
    """,
    "for i in range(n): best = max(best, x[i])",
    "for i in range(n): out.append(x[i] * 2)",
    "for i in range(n): y[i] = y[i] + x[i]",
    """
    for i in range(n):
        for j in range(m):
            for k in range(p):
                C[i, j] += A[i, k] * B[k, j]
    """,
    """
    for i in range(n):
        for j in range(m):
            acc = 0.0
            for k in range(p):
                acc = acc + A[i][k] * B[k][j]
            C[i][j] = acc
    """,
    "for i in range(n-1): y[i] = y[i+1]",
    """
    for i in range(n):
        y[2*i] = x[i]
        z[i] = y[2*i+1]
    """,
    """
    k = 0
    while k < n:
        y[k] = x[k] * 2
        k += 1
    """,
    """
    for i in range(n):
        k = i * 2
        y[k] = x[k]
    """,
    "for i in range(y.shape[0]): y[i] = torch.zeros_like(y)[i] + len(y) + y.size(0)",
    "for i in range(n): total = torch.maximum(total, x[i])",
    """
    for i in range(n):
        tmp = x[i] * 2
        y[i] = tmp + 1
    """,
    """
    for i in range(n):
        for j in range(m):
            t[j] = x[i, j] * 2
            y[i, j] = t[j]
    """,
    "for i, row in enumerate(x): y[i] = row.sum()",
    "for row, out in zip(x, y): out[0] = row[0] * out[1]",
    """
    for b in range(B):
        buf = torch.zeros(n)
        for i in range(n):
            buf[i] = x[b, i]
        y[b] = buf.sum()
    """,
    """
    for i in range(n):
        count += 1
        if x[i] > 0: pos += x[i]
    """,
    """
    for b in range(B):
        for i in range(n): y[b,i] = x[b,i]
        for j in range(n): z[b,j] = y[b,j] * 2
    """,
    "for i in range(n): y[idx[i]] += x[i]",
    "for i in range(n): y[0] += x[i]",
    "for i in range(n): y[i].add_(x[i])",
    """
    for i in range(n):
        x0 = 2
        y[i] = x0 if x[i] > 0 else -x0
    """,
    """
    for i in range(n):
            for j in range(m):
                y[i] += x[i,j]
        else:
            pass
    """,
    "for i in range(n): dx[i] = 2 * x[i] * g[i]",
]


@pytest.mark.parametrize(("text", "sentence"), CARRIED)
def test_a_true_dependence_is_named(text: str, sentence: str):
    assert sentence in carried_dependence(textwrap.dedent(text).strip())


@pytest.mark.parametrize("text", FREE)
def test_no_dependence_is_made_up(text: str):
    assert carried_dependence(textwrap.dedent(text).strip()) == ""


def test_code_too_deep_for_recursion_has_none_that_is_evident():
    chain = "for i in range(n):\n if x[i] == 0: y = 0\n" + "".join(f" elif x[i] == {k}: y = {k}\n" for k in range(900))
    assert carried_dependence(chain) == ""


def test_text_as_it_stands_in_a_file_is_understood():
    segment = "for i in range(1, n):\n            y[i] = a * y[i - 1] + x[i]\n        else:\n            pass"
    assert carried_dependence(segment) == "y[i] needs y[i - 1], written by an earlier iteration"


@pytest.mark.parametrize("text", ["", "x = 1", "for i in", "[f(i) for i in x]", "\x00"])
def test_text_without_a_loop_has_no_dependence(text: str):
    assert carried_dependence(text) == ""


def test_the_direction_of_a_loop_decides():
    import ast

    def index(text: str) -> list[ast.expr]:
        return [ast.parse(text, mode="eval").body]

    written, after, before = index("i"), index("i + 1"), index("i - 2")
    for direction, expected in ((1, (False, True)), (-1, (True, False)), (0, (True, True))):
        found = tuple(needs_earlier(written, read, {"i": direction}, frozenset()) for read in (after, before))
        assert found == expected
