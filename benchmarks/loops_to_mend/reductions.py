"""Sums, contractions and extrema."""

# ruff: noqa: N806 - matrices have capital letters
import numpy as np
import torch

from loops_to_mend.task import Task, drawn


def softmax_loop(x):
    out = torch.zeros_like(x)
    for i in range(x.shape[0]):
        e = torch.exp(x[i] - x[i].max())
        out[i] = e / e.sum()
    return out


def softmax_expert(x):
    e = torch.exp(x - x.max(1, keepdim=True).values)
    return e / e.sum(1, keepdim=True)


def distance_loop(a, b):
    out = torch.zeros(a.shape[0], b.shape[0])
    for i in range(a.shape[0]):
        for j in range(b.shape[0]):
            out[i, j] = ((a[i] - b[j]) ** 2).sum()
    return out


def distance_expert(a, b):
    return (a[:, None] - b).square().sum(-1)


def matmul_loop(a, b):
    out = torch.zeros(a.shape[0], b.shape[1])
    for i in range(a.shape[0]):
        for j in range(b.shape[1]):
            for k in range(a.shape[1]):
                out[i, j] += a[i, k] * b[k, j]
    return out


def matmul_compiled(a, b):
    out = np.zeros((a.shape[0], b.shape[1]), dtype=a.dtype)
    for i in range(a.shape[0]):
        for j in range(b.shape[1]):
            for k in range(a.shape[1]):
                out[i, j] += a[i, k] * b[k, j]
    return out


def bilinear_loop(x, w, y):
    out = torch.zeros(x.shape[0], w.shape[0])
    for n in range(x.shape[0]):
        for k in range(w.shape[0]):
            for i in range(x.shape[1]):
                for j in range(y.shape[1]):
                    out[n, k] += x[n, i] * w[k, i, j] * y[n, j]
    return out


def bilinear_expert(x, w, y):
    return torch.einsum("ni,kij,nj->nk", x, w, y)


def normalised_loop(x):
    out = torch.zeros_like(x)
    for j in range(x.shape[1]):
        mean = x[:, j].mean()
        var = ((x[:, j] - mean) ** 2).mean()
        out[:, j] = (x[:, j] - mean) / torch.sqrt(var + 1e-5)
    return out


def normalised_expert(x):
    centred = x - x.mean(0)
    return centred / torch.sqrt(centred.square().mean(0) + 1e-5)


def argmax_loop(x):
    out = torch.zeros(x.shape[0], dtype=torch.long)
    for i in range(x.shape[0]):
        best = x[i, 0]
        for j in range(1, x.shape[1]):
            if x[i, j] > best:
                best = x[i, j]
                out[i] = j
    return out


def argmax_expert(x):
    return x.argmax(1)


def argmax_compiled(x):
    out = np.zeros(x.shape[0], dtype=np.int64)
    for i in range(x.shape[0]):
        best = x[i, 0]
        for j in range(1, x.shape[1]):
            if x[i, j] > best:
                best = x[i, j]
                out[i] = j
    return out


def attention_loop(q, k, v):
    rows = []
    for i in range(q.shape[0]):
        w = torch.softmax(k @ q[i] / q.shape[1] ** 0.5, dim=0)
        rows.append(w @ v)
    return torch.stack(rows)


def attention_expert(q, k, v):
    return torch.softmax(q @ k.T / q.shape[1] ** 0.5, dim=1) @ v


def rbf_loop(x, y):
    K = torch.empty(x.shape[0], y.shape[0])
    for i in range(x.shape[0]):
        for j in range(y.shape[0]):
            K[i, j] = torch.exp(-0.5 * ((x[i] - y[j]) ** 2).sum())
    return K


def rbf_expert(x, y):
    return torch.exp(-0.5 * (x[:, None] - y).square().sum(-1))


def logsumexp_loop(x):
    out = torch.zeros(x.shape[0])
    for i in range(x.shape[0]):
        total = 0.0
        for j in range(x.shape[1]):
            total = total + torch.exp(x[i, j])
        out[i] = torch.log(total)
    return out


def logsumexp_expert(x):
    return torch.log(torch.exp(x).sum(1))


def norms_loop(x):
    norms = []
    for row in x:
        norms.append(torch.sqrt((row * row).sum()))
    return torch.stack(norms)


def norms_expert(x):
    return torch.sqrt((x * x).sum(1))


TASKS = [
    Task("softmax of rows, 2,000 x 100", softmax_loop, softmax_expert, lambda n: (drawn(n, 100),), 2_000, 60),
    Task("pairwise distance, 150 x 150 x 16", distance_loop, distance_expert,
         lambda n: (drawn(n, 16), drawn(n, 16)), 150, 16),
    Task("matrix product, 24 x 24 x 24", matmul_loop, torch.matmul, lambda n: (drawn(n, n), drawn(n, n)), 24, 8, True,
         matmul_compiled),
    Task("bilinear form, 16 x 6 x 8 x 8", bilinear_loop, bilinear_expert,
         lambda n: (drawn(n, n // 2), drawn(6, n // 2, n // 2), drawn(n, n // 2)), 16, 6),
    Task("normalised columns, 100 x 2,000", normalised_loop, normalised_expert, lambda n: (drawn(100, n),), 2_000, 40),
    Task("argmax of rows, 200 x 200", argmax_loop, argmax_expert, lambda n: (drawn(n, n),), 200, 20, False,
         argmax_compiled),
    Task("attention row by row, 2,000 x 32", attention_loop, attention_expert,
         lambda n: (drawn(n, 32), drawn(100, 32), drawn(100, 32)), 2_000, 60),
    Task("RBF kernel, 100 x 100 x 16", rbf_loop, rbf_expert, lambda n: (drawn(n, 16), drawn(n, 16)), 100, 16),
    Task("log-sum-exp, 200 x 100", logsumexp_loop, logsumexp_expert, lambda n: (drawn(n, n // 2),), 200, 20),
    Task("norms of rows, 5,000 x 50", norms_loop, norms_expert, lambda n: (drawn(n, 50),), 5_000, 80),
]  # fmt: skip
