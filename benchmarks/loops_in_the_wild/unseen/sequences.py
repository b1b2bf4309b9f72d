"""After models of sequences, samplers and solvers: the ones that were kept aside."""

import torch

from loops_in_the_wild.case import Case


def lstm_step_by_step(x, W, U, b):
    n = U.shape[0]
    h = torch.zeros(n, dtype=x.dtype)
    c = torch.zeros(n, dtype=x.dtype)
    outputs = []
    for xt in x:
        gates = xt @ W + h @ U + b
        i, f, o, g = gates.chunk(4)
        c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
        h = torch.sigmoid(o) * torch.tanh(c)
        outputs.append(h)
    return torch.stack(outputs)


def power_iteration(A, tol):
    v = torch.ones(A.shape[0], dtype=A.dtype)
    old = torch.zeros((), dtype=A.dtype)
    while True:
        v = A @ v
        norm = v.norm()
        v = v / norm
        if abs(norm - old) < tol:
            break
        old = norm
    return norm


def sample_tokens(logits, generator):
    tokens = []
    for row in logits:
        p = torch.softmax(row, dim=0)
        tokens.append(torch.multinomial(p, 1, generator=generator))
    return torch.cat(tokens)


def relative_position_bias(table, length):
    bias = torch.zeros(length, length, dtype=table.dtype)
    for i in range(length):
        for j in range(length):
            bias[i, j] = table[i - j + length - 1]
    return bias


def causal_mean(x):
    means = []
    for t in range(x.shape[0]):
        means.append(x[: t + 1].mean(dim=0))
    return torch.stack(means)


def cyclic_shift_rows(x):
    """Row i moves i places to the right."""
    out = torch.zeros_like(x)
    n, m = x.shape
    for i in range(n):
        for j in range(m):
            out[i, (i + j) % m] = x[i, j]
    return out


def embedding_bag_mean(weight, ids):
    rows = []
    for bag in ids:
        rows.append(weight[bag].mean(dim=0))
    return torch.stack(rows)


CASES = [
    Case(embedding_bag_mean, lambda d, n: (d.normal(12, 4), d.integers(12, n, 5)), size=60),
    Case(
        lstm_step_by_step,
        lambda d, n: (d.normal(n, 3), d.normal(3, 16), d.normal(4, 16), d.normal(16)),
        "decline",
        40,
        "hidden and cell state are carried",
    ),
    Case(
        power_iteration, lambda d, n: (d.positive_definite(6), 1e-4 / n), "decline", 40, "runs until it has converged"
    ),
    Case(
        sample_tokens,
        lambda d, n: (d.normal(n, 6), torch.Generator().manual_seed(1)),
        "decline",
        80,
        "draws random numbers in each iteration",
    ),
    Case(relative_position_bias, lambda d, n: (d.normal(2 * n - 1), n), size=20),
    Case(causal_mean, lambda d, n: (d.normal(n, 3),), size=80),
    Case(cyclic_shift_rows, lambda d, n: (d.normal(n, n + 3),), size=16),
]
