"""A statement per element."""

# ruff: noqa: SIM108 - loops as their authors write them
import numpy as np
import torch
from torch.autograd import Function

from loops_to_mend.task import Task, drawn


class SquareLoop(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        rows, cols = x.shape
        out = torch.empty_like(x)
        for row in range(rows):
            for col in range(cols):
                out[row, col] = x[row, col] ** 2
        return out

    @staticmethod
    def backward(ctx, grad_output):
        (x,) = ctx.saved_tensors
        rows, cols = x.shape
        grad_x = torch.empty_like(x)
        for row in range(rows):
            for col in range(cols):
                grad_x[row, col] = grad_output[row, col] * 2 * x[row, col]
        return grad_x


class SquareExpert(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, grad_output):
        (x,) = ctx.saved_tensors
        return (x * grad_output).mul_(2)


class ReluLoop(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        out = torch.zeros_like(x)
        for row in range(len(x)):
            for col in range(x.shape[1]):
                if x[row, col] > 0:
                    out[row, col] = x[row, col]
        return out

    @staticmethod
    def backward(ctx, grad_output):
        (x,) = ctx.saved_tensors
        grad_x = torch.zeros_like(x)
        for row in range(len(x)):
            for col in range(x.shape[1]):
                if x[row, col] > 0:
                    grad_x[row, col] = grad_output[row, col]
        return grad_x


class ReluExpert(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return torch.where(x > 0, x, 0)

    @staticmethod
    def backward(ctx, grad_output):
        (x,) = ctx.saved_tensors
        return torch.where(x > 0, grad_output, 0)


def huber_loop(pred, target):
    total = 0.0
    for i in range(len(pred)):
        err = abs(pred[i] - target[i])
        if err <= 1.0:
            total = total + 0.5 * err**2
        else:
            total = total + err - 0.5
    return total / len(pred)


def huber_expert(pred, target):
    return torch.nn.functional.huber_loss(pred, target)


def huber_compiled(pred, target):
    total = 0.0
    for i in range(len(pred)):
        err = abs(pred[i] - target[i])
        total += 0.5 * err**2 if err <= 1.0 else err - 0.5
    return total / len(pred)


def softplus_loop(x):
    out = torch.empty_like(x)
    for i in range(x.shape[0]):
        for j in range(x.shape[1]):
            out[i, j] = torch.log(1 + torch.exp(x[i, j]))
    return out


def softplus_expert(x):
    return torch.log(1 + torch.exp(x))


def clipped_loop(x, low, high):
    y = x.clone()
    for i in range(x.numel()):
        if x[i] < low:
            y[i] = low
        elif x[i] > high:
            y[i] = high
    return y


def clipped_expert(x, low, high):
    return x.clamp(low, high)


def clipped_compiled(x, low, high):
    y = x.copy()
    for i in range(x.size):
        if x[i] < low:
            y[i] = low
        elif x[i] > high:
            y[i] = high
    return y


def outer_loop(a, b):
    out = torch.zeros(len(a), len(b))
    for i in range(len(a)):
        for j in range(len(b)):
            out[i, j] = a[i] * b[j]
    return out


def outer_compiled(a, b):
    out = np.zeros((len(a), len(b)), dtype=a.dtype)
    for i in range(len(a)):
        for j in range(len(b)):
            out[i, j] = a[i] * b[j]
    return out


def item_loop(x):
    out = []
    for v in x.tolist():
        out.append(v * v + 1)
    return torch.tensor(out)


def item_expert(x):
    return x * x + 1


TASKS = [
    Task("square, 1000 x 1000", SquareLoop, SquareExpert, lambda n: (drawn(n, n),), 1000, 40),
    Task("relu, 300 x 300", ReluLoop, ReluExpert, lambda n: (drawn(n, n),), 300, 40),
    Task("Huber mean, 20,000", huber_loop, huber_expert, lambda n: (drawn(n), drawn(n + 1)[:n]), 20_000, 200, True,
         huber_compiled),
    Task("softplus, 150 x 150", softplus_loop, softplus_expert, lambda n: (drawn(n, n),), 150, 20),
    Task("clip, 20,000", clipped_loop, clipped_expert, lambda n: (drawn(n), -0.5, 0.5), 20_000, 300, False,
         clipped_compiled),
    Task("outer product, 150 x 150", outer_loop, torch.outer, lambda n: (drawn(n), drawn(n)), 150, 20, True,
         outer_compiled),
    Task(".tolist(), 200,000", item_loop, item_expert, lambda n: (drawn(n),), 200_000, 2_000, False),
]  # fmt: skip
