"""After the PolyBench kernels, carried over to torch as people do: indices, in place, one result at a time."""

import torch

from loops_in_the_wild.case import Case


def gemm(alpha, beta, A, B, C):
    out = C * beta
    NI, NK = A.shape
    NJ = B.shape[1]
    for i in range(NI):
        for j in range(NJ):
            for k in range(NK):
                out[i][j] += alpha * A[i][k] * B[k][j]
    return out


def two_mm(A, B, C):
    n, m = A.shape[0], B.shape[1]
    tmp = torch.zeros(n, m, dtype=A.dtype)
    for i in range(n):
        for j in range(m):
            for k in range(A.shape[1]):
                tmp[i, j] += A[i, k] * B[k, j]
    D = torch.zeros(n, C.shape[1], dtype=A.dtype)
    for i in range(n):
        for j in range(C.shape[1]):
            for k in range(m):
                D[i, j] += tmp[i, k] * C[k, j]
    return D


def atax(A, x):
    M, N = A.shape
    y = torch.zeros(N, dtype=A.dtype)
    for i in range(M):
        tmp = 0.0
        for j in range(N):
            tmp = tmp + A[i, j] * x[j]
        for j in range(N):
            y[j] = y[j] + A[i, j] * tmp
    return y


def bicg(A, p, r):
    N, M = A.shape
    s = torch.zeros(M, dtype=A.dtype)
    q = torch.zeros(N, dtype=A.dtype)
    for i in range(N):
        for j in range(M):
            s[j] = s[j] + r[i] * A[i, j]
            q[i] = q[i] + A[i, j] * p[j]
    return s, q


def mvt(A, x1, x2, y1, y2):
    N = A.shape[0]
    x1 = x1.clone()
    x2 = x2.clone()
    for i in range(N):
        for j in range(N):
            x1[i] += A[i, j] * y1[j]
    for i in range(N):
        for j in range(N):
            x2[i] += A[j, i] * y2[j]
    return x1, x2


def gesummv(alpha, beta, A, B, x):
    y = torch.zeros_like(x)
    for i in range(A.size(0)):
        tmp = 0.0
        acc = 0.0
        for j in range(A.size(1)):
            tmp = A[i, j] * x[j] + tmp
            acc = B[i, j] * x[j] + acc
        y[i] = alpha * tmp + beta * acc
    return y


def syrk_lower(A, C):
    N, M = A.shape
    out = C.clone()
    for i in range(N):
        for j in range(i + 1):
            for k in range(M):
                out[i, j] += A[i, k] * A[j, k]
    return out


def jacobi_1d(A, steps):
    A = A.clone()
    n = A.shape[0]
    for t in range(steps):
        B = A.clone()
        for i in range(1, n - 1):
            B[i] = 0.33333 * (A[i - 1] + A[i] + A[i + 1])
        A = B
    return A


def jacobi_2d(A):
    B = torch.zeros_like(A)
    n, m = A.shape
    for i in range(1, n - 1):
        for j in range(1, m - 1):
            B[i, j] = 0.2 * (A[i, j] + A[i, j - 1] + A[i, 1 + j] + A[1 + i, j] + A[i - 1, j])
    return B


def seidel_2d(A, steps):
    A = A.clone()
    n = A.shape[0]
    for _ in range(steps):
        for i in range(1, n - 1):
            for j in range(1, n - 1):
                A[i, j] = (A[i - 1, j] + A[i, j - 1] + A[i, j] + A[i, j + 1] + A[i + 1, j]) / 5.0
    return A


def floyd_warshall(path):
    path = path.clone()
    n = len(path)
    for k in range(n):
        for i in range(n):
            for j in range(n):
                if path[i, k] + path[k, j] < path[i, j]:
                    path[i, j] = path[i, k] + path[k, j]
    return path


def covariance(data):
    N, M = data.shape
    mean = torch.zeros(M, dtype=data.dtype)
    for j in range(M):
        for i in range(N):
            mean[j] += data[i, j]
        mean[j] /= N
    cov = torch.zeros(M, M, dtype=data.dtype)
    for i in range(M):
        for j in range(M):
            for k in range(N):
                cov[i, j] += (data[k, i] - mean[i]) * (data[k, j] - mean[j])
            cov[i, j] /= N - 1
    return cov


def fdtd_2d_step(ex, ey, hz):
    ex, ey, hz = ex.clone(), ey.clone(), hz.clone()
    nx, ny = hz.shape
    for i in range(1, nx):
        for j in range(ny):
            ey[i, j] = ey[i, j] - 0.5 * (hz[i, j] - hz[i - 1, j])
    for i in range(nx):
        for j in range(1, ny):
            ex[i, j] = ex[i, j] - 0.5 * (hz[i, j] - hz[i, j - 1])
    for i in range(nx - 1):
        for j in range(ny - 1):
            hz[i, j] = hz[i, j] - 0.7 * (ex[i, j + 1] - ex[i, j] + ey[i + 1, j] - ey[i, j])
    return ex, ey, hz


def trisolv(L, b):
    x = torch.zeros_like(b)
    N = L.shape[0]
    for i in range(N):
        acc = b[i]
        for j in range(i):
            acc = acc - L[i, j] * x[j].clone()
        x[i] = acc / L[i, i]
    return x


def prefix_recurrence(a, b):
    """y[i] = a[i] * y[i - 1] + b[i]"""
    y = torch.zeros_like(b)
    y[0] = b[0]
    for i in range(1, len(b)):
        y[i] = a[i] * y[i - 1].clone() + b[i]
    return y


CASES = [
    Case(gemm, lambda d, n: (1.5, 1.2, d.normal(n, 6), d.normal(6, n - 1), d.normal(n, n - 1)), size=12),
    Case(two_mm, lambda d, n: (d.normal(n, 5), d.normal(5, n + 1), d.normal(n + 1, 4)), size=12),
    Case(atax, lambda d, n: (d.normal(n, n + 2), d.normal(n + 2))),
    Case(bicg, lambda d, n: (d.normal(n, n + 2), d.normal(n + 2), d.normal(n))),
    Case(mvt, lambda d, n: (d.normal(n, n), d.normal(n), d.normal(n), d.normal(n), d.normal(n))),
    Case(gesummv, lambda d, n: (1.5, 1.2, d.normal(n, n), d.normal(n, n), d.normal(n))),
    Case(syrk_lower, lambda d, n: (d.normal(n, 5), d.normal(n, n)), size=14),
    Case(jacobi_1d, lambda d, n: (d.normal(3 * n), 6)),
    Case(jacobi_2d, lambda d, n: (d.normal(n, n + 3),)),
    Case(seidel_2d, lambda d, n: (d.normal(n, n), 3), "decline", 14, "every element reads what was just written"),
    Case(floyd_warshall, lambda d, n: (d.uniform(n, n) * 9 + 1,), size=12),
    Case(covariance, lambda d, n: (d.normal(n + 4, n // 2),)),
    Case(fdtd_2d_step, lambda d, n: (d.normal(n, n), d.normal(n, n), d.normal(n, n))),
    Case(trisolv, lambda d, n: (d.positive_definite(n).tril(), d.normal(n))),
    Case(
        prefix_recurrence,
        lambda d, n: (d.uniform(n), d.normal(n)),
        "decline",
        100,
        "each element needs the one before it",
    ),
]
