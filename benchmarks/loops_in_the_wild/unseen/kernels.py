"""After the PolyBench kernels: the ones that were kept aside."""

import torch

from loops_in_the_wild.case import Case


def trmm(A, B):
    M, N = B.shape
    out = torch.zeros_like(B)
    for i in range(M):
        for j in range(N):
            out[i, j] = B[i, j]
            for k in range(i + 1, M):
                out[i, j] += A[k, i] * B[k, j]
    return out


def lu_in_place(A):
    A = A.clone()
    n = A.shape[0]
    for k in range(n):
        for i in range(k + 1, n):
            A[i, k] /= A[k, k].clone()
            for j in range(k + 1, n):
                A[i, j] -= A[i, k].clone() * A[k, j].clone()
    return A


def correlation(data):
    n, m = data.shape
    mean = torch.zeros(m, dtype=data.dtype)
    std = torch.zeros(m, dtype=data.dtype)
    for j in range(m):
        mean[j] = data[:, j].sum() / n
        std[j] = torch.sqrt(((data[:, j] - mean[j].clone()) ** 2).sum() / n)
    corr = torch.eye(m, dtype=data.dtype)
    for i in range(m - 1):
        for j in range(i + 1, m):
            acc = 0.0
            for k in range(n):
                acc = acc + (data[k, i] - mean[i]) * (data[k, j] - mean[j])
            corr[i, j] = acc / (n * std[i] * std[j])
            corr[j, i] = corr[i, j].clone()
    return corr


def heat_3d_step(A):
    B = A.clone()
    n = A.shape[0]
    for i in range(1, n - 1):
        for j in range(1, n - 1):
            for k in range(1, n - 1):
                B[i, j, k] = (
                    0.125 * (A[i + 1, j, k] - 2.0 * A[i, j, k] + A[i - 1, j, k])
                    + 0.125 * (A[i, j + 1, k] - 2.0 * A[i, j, k] + A[i, j - 1, k])
                    + 0.125 * (A[i, j, k + 1] - 2.0 * A[i, j, k] + A[i, j, k - 1])
                    + A[i, j, k]
                )
    return B


def durbin_levinson(r):
    """The coefficients of a linear predictor; every order needs the one before."""
    y = [-r[0]]
    beta, alpha = 1.0, -r[0]
    for k in range(1, len(r)):
        beta = (1 - alpha * alpha) * beta
        acc = 0.0
        for i in range(k):
            acc = acc + r[k - i - 1] * y[i]
        alpha = -(r[k] + acc) / beta
        y = [y[i] + alpha * y[k - i - 1] for i in range(k)] + [alpha]
    return torch.stack(y)


def gemver(A, u1, v1, u2, v2, y, z, alpha, beta):
    A = A.clone()
    n = A.shape[0]
    x = torch.zeros_like(y)
    for i in range(n):
        for j in range(n):
            A[i, j] = A[i, j] + u1[i] * v1[j] + u2[i] * v2[j]
    for i in range(n):
        for j in range(n):
            x[i] = x[i] + beta * A[j, i] * y[j]
    for i in range(n):
        x[i] = x[i] + z[i]
    w = torch.zeros_like(y)
    for i in range(n):
        for j in range(n):
            w[i] = w[i] + alpha * A[i, j] * x[j]
    return w


def doitgen(A, C4):
    NR, NQ, NP = A.shape
    out = torch.zeros_like(A)
    for r in range(NR):
        for q in range(NQ):
            for p in range(NP):
                total = 0.0
                for s in range(NP):
                    total += A[r, q, s] * C4[s, p]
                out[r, q, p] = total
    return out


CASES = [
    Case(doitgen, lambda d, n: (d.normal(4, 5, n), d.normal(n, n)), size=8),
    Case(trmm, lambda d, n: (d.normal(n, n), d.normal(n, n - 3)), size=12),
    Case(lu_in_place, lambda d, n: (d.positive_definite(n),), size=10),
    Case(correlation, lambda d, n: (d.normal(n, n // 2),)),
    Case(heat_3d_step, lambda d, n: (d.normal(n, n, n),), size=8),
    Case(
        durbin_levinson,
        lambda d, n: (d.uniform(n) * 0.5 / n,),
        "decline",
        20,
        "every order needs the order before it",
    ),
    Case(
        gemver,
        lambda d, n: (d.normal(n, n), *(d.normal(n) for _ in range(6)), 1.5, 1.2),
        size=16,
    ),
]
