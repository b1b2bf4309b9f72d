"""Loops that carry a dependence do as kernels what they did: every class, on many inputs, in both versions."""

import pytest
import torch

randn = torch.randn
FLOAT64, FLOAT32 = torch.float64, torch.float32


# name -> (the forward's body, its arguments, what makes them of two lengths and a dtype[, what stands before it])
CASES = {
    "a linear recurrence of rows, appended and stacked": (
        """
        h = torch.zeros_like(x[0])
        out = []
        for t in range(x.shape[0]):
            h = a * h + x[t]
            out.append(h)
        return torch.stack(out)
        """,
        "x, a",
        lambda n, m, d: (randn(n, m, dtype=d), 0.9),
    ),
    "a moving average": (
        """
        y = torch.empty_like(x)
        s = x[0]
        for t in range(x.shape[0]):
            s = alpha * x[t] + (1 - alpha) * s
            y[t] = s
        return y
        """,
        "x, alpha",
        lambda n, m, d: (randn(n, dtype=d), 0.3),
    ),
    "Viterbi by rows": (
        """
        T, K = emit.shape
        v = start + emit[0]
        back = torch.zeros(T, K, dtype=torch.long)
        for t in range(1, T):
            scores = v[:, None] + trans
            best, idx = scores.max(0)
            v = best + emit[t]
            back[t] = idx
        path = torch.zeros(T, dtype=torch.long)
        path[T-1] = v.argmax()
        return v, back
        """,
        "emit, trans, start",
        lambda n, m, d: ((randn(n, m, dtype=d) * 2).round(), (randn(m, m, dtype=d)).round(), randn(m, dtype=d)),
    ),
    "Viterbi by elements": (
        """
        T, K = emit.shape
        v = torch.zeros(T, K, dtype=emit.dtype)
        back = torch.zeros(T, K, dtype=torch.int64)
        v[0] = emit[0]
        for t in range(1, T):
            for j in range(K):
                best = -float("inf")
                arg = 0
                for i in range(K):
                    s = v[t - 1, i] + trans[i, j]
                    if s > best:
                        best = s
                        arg = i
                v[t, j] = best + emit[t, j]
                back[t, j] = arg
        return v, back
        """,
        "emit, trans",
        lambda n, m, d: ((randn(n, m, dtype=d) * 2).round(), (randn(m, m, dtype=d)).round()),
    ),
    "the forward algorithm of a CRF": (
        """
        alpha = emit[0]
        for t in range(1, emit.size(0)):
            alpha = torch.logsumexp(alpha.unsqueeze(1) + trans, dim=0) + emit[t]
        return torch.logsumexp(alpha, 0)
        """,
        "emit, trans",
        lambda n, m, d: (randn(n, m, dtype=d), randn(m, m, dtype=d)),
    ),
    "an edit distance of integers": (
        """
        n, m = len(a), len(b)
        D = torch.zeros(n + 1, m + 1, dtype=torch.int64)
        for i in range(n + 1):
            D[i, 0] = i
        for j in range(m + 1):
            D[0, j] = j
        for i in range(1, n + 1):
            for j in range(1, m + 1):
                cost = 0 if a[i - 1] == b[j - 1] else 1
                D[i, j] = min(D[i - 1, j] + 1, D[i, j - 1] + 1, D[i - 1, j - 1] + cost)
        return D[n, m] + x
        """,
        "x, a, b",
        lambda n, m, d: (randn(1, dtype=d), torch.randint(0, 3, (n,)), torch.randint(0, 3, (m,))),
    ),
    "a sum that is reset": (
        """
        y = torch.zeros_like(x)
        s = 0.0
        for i in range(len(x)):
            if x[i] < 0:
                s = 0.0
            else:
                s = s + x[i]
            y[i] = s
        return y
        """,
        "x",
        lambda n, m, d: (randn(n, dtype=d),),
    ),
    "softmax of rows and of columns, and its logarithm": (
        """
        y, total = torch.zeros_like(x), torch.zeros_like(a)
        for t in range(1, x.shape[0]):
            share = torch.softmax(y[t - 1] + x[t], 0)
            logs = F.log_softmax(x[t] - share, dim=-1)
            table = torch.softmax(share[:, None] + a, dim=0)
            total += table
            y[t] = logs + table.sum(1)
        return y, total
        """,
        "x, a",
        lambda n, m, d: (randn(n, m, dtype=d), randn(m, m, dtype=d)),
    ),
    "a mean whose beginning is corrected": (
        """
        y, s = torch.zeros_like(x), 0.0
        for t in range(len(x)):
            s = beta * s + (1 - beta) * x[t]
            y[t] = s / (1 - beta ** (t + 1))
        return y
        """,
        "x, beta",
        lambda n, m, d: (randn(n, dtype=d), 0.9),
    ),
    "leaky neurons that fire": (
        """
        v, spikes = torch.zeros_like(x[0]) if len(x) else x.new_zeros(3), torch.zeros_like(x)
        for t in range(x.shape[0]):
            v = 0.5 * v + x[t]
            fired = (v > 1).to(x.dtype)
            spikes[t] = fired
            v = v * (v > 2).type_as(v) - fired
        return spikes, v
        """,
        "x",
        lambda n, m, d: (2 * randn(n, m, dtype=d),),
    ),
    "Gauss-Seidel": (
        """
        n = b.shape[0]
        x = torch.zeros_like(b)
        for it in range(iters):
            for i in range(n):
                s = b[i]
                for j in range(n):
                    if j != i:
                        s = s - A[i, j] * x[j]
                x[i] = s / A[i, i]
        return x
        """,
        "A, b, iters",
        lambda n, m, d: (randn(m, m, dtype=d) + 5 * torch.eye(m, dtype=d), randn(m, dtype=d), 4),
    ),
    "LU by rows": (
        """
        n = A.shape[0]
        U = A.clone()
        L = torch.eye(n, dtype=A.dtype)
        for k in range(n):
            for i in range(k + 1, n):
                f = U[i, k] / U[k, k]
                L[i, k] = f
                U[i, k:] = U[i, k:] - f * U[k, k:]
        return L, U
        """,
        "A",
        lambda n, m, d: (randn(m, m, dtype=d) + 5 * torch.eye(m, dtype=d),),
    ),
    "Cholesky by dot products": (
        """
        n = A.shape[0]
        L = torch.zeros_like(A)
        for i in range(n):
            for j in range(i + 1):
                s = torch.dot(L[i, :j], L[j, :j])
                if i == j:
                    L[i, j] = torch.sqrt(A[i, i] - s)
                else:
                    L[i, j] = (A[i, j] - s) / L[j, j]
        return L
        """,
        "A",
        lambda n, m, d: (randn(m, m, dtype=d) * 0.1 + 5 * torch.eye(m, dtype=d),),
    ),
    "an IIR filter": (
        """
        y = torch.zeros_like(x)
        for n in range(x.shape[0]):
            acc = b[0] * x[n]
            for k in range(1, len(b)):
                if n - k >= 0:
                    acc = acc + b[k] * x[n - k] - a[k] * y[n - k]
            y[n] = acc
        return y
        """,
        "x, b, a",
        lambda n, m, d: (randn(n, dtype=d), randn(3, dtype=d) * 0.3, randn(3, dtype=d) * 0.3),
    ),
    "Python numbers": (
        """
        s = 0.0
        y = torch.zeros_like(x)
        for i in range(x.shape[0]):
            s = 0.5 * s + math.exp(-x[i].item() ** 2)
            y[i] = s
        return y
        """,
        "x",
        lambda n, m, d: (randn(n, dtype=d),),
    ),
    "soft-DTW with a function of the user's": (
        """
        n, m = D.shape
        R = torch.zeros((n + 1, m + 1), dtype=D.dtype) + float('inf')
        R[0, 0] = 0
        for i in range(n):
            for j in range(m):
                R[i + 1, j + 1] = D[i, j] + softmin(R[i, j + 1], R[i + 1, j], R[i, j], gamma)
        return R[n, m]
        """,
        "D, gamma",
        lambda n, m, d: (randn(n, m, dtype=d) ** 2, 0.5),
        """
        def softmin(a, b, c, gamma):
            # of three
            a, b, c = -a / gamma, -b / gamma, -c / gamma
            top = max(a, b, c)
            return -gamma * (torch.log(torch.exp(a - top) + torch.exp(b - top) + torch.exp(c - top)) + top)


        """,
    ),
    "a maximum of a generator": (
        """
        T, K = e.shape
        v = torch.zeros_like(e)
        for t in range(1, T):
            for j in range(K):
                v[t, j] = max(v[t - 1, k] + A[k, j] for k in range(K)) + e[t, j]
        return v
        """,
        "e, A",
        lambda n, m, d: (randn(n, m, dtype=d), randn(m, m, dtype=d)),
    ),
    "a gated cell": (
        """
        h = torch.zeros(W.shape[1], dtype=x.dtype)
        for t in range(x.shape[0]):
            z = torch.sigmoid(x[t] @ W + h)
            n = torch.tanh(x[t] @ V + z * h)
            h = (1 - z) * n + z * h
        return h
        """,
        "x, W, V",
        lambda n, m, d: (randn(n, m, dtype=d), randn(m, 3, dtype=d), randn(m, 3, dtype=d)),
    ),
    "a selective scan of a batch": (
        """
        B, T, N = x.shape
        h = torch.zeros(B, N, dtype=x.dtype)
        ys = []
        for t in range(T):
            h = torch.exp(-dt[:, t, None] * A[None, :]) * h + dt[:, t].unsqueeze(-1) * x[:, t]
            ys.append((h * C).sum(-1))
        y = torch.stack(ys, dim=1)
        return y
        """,
        "x, dt, A, C",
        lambda n, m, d: (randn(2, n, m, dtype=d), torch.rand(2, n, dtype=d), torch.rand(m, dtype=d), randn(m, dtype=d)),
    ),
    "shortest paths until nothing changes": (
        """
        n = W.shape[0]
        d = torch.full((n,), 1e9, dtype=W.dtype)
        d[0] = 0.0
        changed = True
        while changed:
            changed = False
            for u in range(n):
                for v in range(n):
                    if d[u] + W[u, v] + 0.1 < d[v]:
                        d[v] = d[u] + W[u, v] + 0.1
                        changed = True
        return d
        """,
        "W",
        lambda n, m, d: (torch.rand(m, m, dtype=d),),
    ),
    "running values that are read after the loop": (
        """
        best = x[0].clone()
        at = 0
        run = torch.zeros((), dtype=x.dtype)
        hist = []
        for i in range(x.shape[0]):
            run = run * 0.9 + x[i]
            if run > best:
                best = run
                at = i
            hist.append(run.item())
        return best, run, torch.tensor(hist), at
        """,
        "x",
        lambda n, m, d: (randn(n, dtype=d),),
    ),
}
WHICH_LOOP = {"an edit distance of integers": 2}
# Another layout and dtype are other kernels, which cost half a second each to compile.
STRIDED = {"the forward algorithm of a CRF", "a moving average"}


def made(name, rows, columns, dtype, seed=0):
    torch.manual_seed(seed)
    return CASES[name][2](rows, columns, dtype)


def planted(args, number):
    """The arguments with ``number`` at every third place of each tensor of reals."""
    found = []
    for one in args:
        if isinstance(one, torch.Tensor) and one.is_floating_point() and one.dim():
            one = one.clone()
            one.view(-1)[1::3] = number
        found.append(one)
    return found


def strided(args):
    """The same numbers, laid out in another order."""
    return [one.mT.contiguous().mT if isinstance(one, torch.Tensor) and one.dim() > 1 else one for one in args]


def trials(name):
    for rows, columns in ((7, 4), (1, 1), (0, 3), (3, 1), (2, 5)):
        yield made(name, rows, columns, FLOAT64)
    for number in (float("inf"), float("-inf"), float("nan"), 0.0):
        yield planted(made(name, 6, 3, FLOAT64), number)
    yield [one.round() if isinstance(one, torch.Tensor) else one for one in made(name, 8, 4, FLOAT64, 1)]
    yield made(name, 4, 3, torch.bfloat16)
    if name in STRIDED:
        yield strided(made(name, 6, 3, FLOAT32))


@pytest.fixture(scope="module")
def compiled(bench):
    known = {}

    def of(name):
        if name not in known:
            body, signature, make, *before = CASES[name]
            text = bench.forward(body, signature, *before)
            torch.manual_seed(0)
            args = make(6, 4, FLOAT32)
            known[name] = bench.compiled(text, args, loop=WHICH_LOOP.get(name, 0))
        return known[name]

    return of


@pytest.mark.parametrize("name", CASES)
def test_the_kernel_does_what_the_loop_does(bench, compiled, name):
    original, candidate, proposal = compiled(name)
    assert "@numba.njit" in proposal.added and proposal.added.strip().split("\n")[-1] in proposal.new_text
    for args in trials(name):
        assert bench.difference(original, candidate, args) == ""


def test_the_old_loop_stays_for_what_the_kernel_is_not_for(compiled):
    _, _, proposal = compiled("a moving average")
    assert "    s = alpha * x[t] + (1 - alpha) * s" in proposal.new_text.split("else:")[1]


FAULTS = [
    ("LU by rows", "range(k + 1, n)", "range(k + 2, n)"),
    ("a sum that is reset", "x[i] < ", "x[i] <= "),
    ("a moving average", "(1 - alpha)", "alpha"),
    ("running values that are read after the loop", "float(run)", "float(best)"),
]


@pytest.mark.parametrize(("name", "right", "wrong"), FAULTS, ids=[fault[0] for fault in FAULTS])
def test_a_fault_in_the_kernel_is_seen(bench, compiled, name, right, wrong):
    original, _, proposal = compiled(name)
    head, kernel, rest = proposal.new_text.partition("@numba.njit")
    inside, marker, after = rest.partition("class Op")
    assert right in inside
    faulty = bench.loaded(head + kernel + inside.replace(right, wrong, 1) + marker + after).Op
    assert any(bench.difference(original, faulty, args) for args in trials(name))
