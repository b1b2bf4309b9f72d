"""Neighbours: convolutions, poolings, stencils, differences."""

# ruff: noqa: RUF059 - loops as their authors write them
import torch
import torch.nn.functional as F

from loops_to_mend.task import Task, drawn


def convolution_loop(x, w):
    n, c, height, width = x.shape
    f, _, kh, kw = w.shape
    out = torch.zeros(n, f, height - kh + 1, width - kw + 1)
    for b in range(n):
        for k in range(f):
            for i in range(height - kh + 1):
                for j in range(width - kw + 1):
                    out[b, k, i, j] = (x[b, :, i : i + kh, j : j + kw] * w[k]).sum()
    return out


def max_pool_loop(x):
    n, c, height, width = x.shape
    out = torch.zeros(n, c, height // 2, width // 2)
    for b in range(n):
        for k in range(c):
            for i in range(height // 2):
                for j in range(width // 2):
                    out[b, k, i, j] = x[b, k, 2 * i : 2 * i + 2, 2 * j : 2 * j + 2].max()
    return out


def max_pool_expert(x):
    return x.unfold(2, 2, 2).unfold(3, 2, 2).amax((-2, -1))


def average_loop(x, width):
    out = torch.zeros(len(x) - width + 1)
    for i in range(len(x) - width + 1):
        out[i] = x[i : i + width].mean()
    return out


def average_expert(x, width):
    return x.unfold(0, width, 1).mean(1)


def stencil_loop(a):
    b = torch.zeros_like(a)
    for i in range(1, a.shape[0] - 1):
        for j in range(1, a.shape[1] - 1):
            b[i, j] = 0.2 * (a[i, j] + a[i, j - 1] + a[i, j + 1] + a[i - 1, j] + a[i + 1, j])
    return b


def stencil_expert(a):
    b = torch.zeros_like(a)
    b[1:-1, 1:-1] = 0.2 * (a[1:-1, 1:-1] + a[1:-1, :-2] + a[1:-1, 2:] + a[:-2, 1:-1] + a[2:, 1:-1])
    return b


def stencil_compiled(a):
    b = a * 0
    for i in range(1, a.shape[0] - 1):
        for j in range(1, a.shape[1] - 1):
            b[i, j] = 0.2 * (a[i, j] + a[i, j - 1] + a[i, j + 1] + a[i - 1, j] + a[i + 1, j])
    return b


def variation_loop(img):
    total = 0.0
    for i in range(img.shape[0] - 1):
        for j in range(img.shape[1] - 1):
            total = total + abs(img[i + 1, j] - img[i, j]) + abs(img[i, j + 1] - img[i, j])
    return total


def variation_expert(img):
    corner = img[:-1, :-1]
    return (img[1:, :-1] - corner).abs().sum() + (img[:-1, 1:] - corner).abs().sum()


def columns_loop(x, k):
    columns = []
    for i in range(x.shape[1] - k + 1):
        columns.append(x[:, i : i + k])
    return torch.stack(columns)


def columns_expert(x, k):
    return x.unfold(1, k, 1).transpose(0, 1)


TASKS = [
    Task("convolution, 2 x 3 x 24 x 24, 4 filters", convolution_loop, F.conv2d,
         lambda n: (drawn(2, 3, n, n), drawn(4, 3, 3, 3)), 24, 7),
    Task("max pooling, 4 x 8 x 32 x 32", max_pool_loop, max_pool_expert, lambda n: (drawn(4, 8, n, n),), 32, 6),
    Task("moving average, 5,000", average_loop, average_expert, lambda n: (drawn(n), 8), 5_000, 100),
    Task("five-point stencil, 100 x 100", stencil_loop, stencil_expert, lambda n: (drawn(n, n),), 100, 16, True,
         stencil_compiled),
    Task("total variation, 80 x 80", variation_loop, variation_expert, lambda n: (drawn(n, n),), 80, 14),
    Task("im2col, 16 x 5,000", columns_loop, columns_expert, lambda n: (drawn(16, n), 5), 5_000, 80),
]  # fmt: skip
