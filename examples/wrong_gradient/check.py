"""A mish activation, written as a Function; below zero its backward forgot to multiply by what it was given.

python examples/wrong_gradient/check.py
"""

import torch
import torch.nn.functional as F

import gradwright as gw


class Mish(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * torch.tanh(F.softplus(x))

    @staticmethod
    def backward(ctx, grad_output):
        (x,) = ctx.saved_tensors
        t = torch.tanh(F.softplus(x))
        slope = t + x * (1 - t**2) * torch.sigmoid(x)
        return torch.where(x > 0, grad_output * slope, slope)


if __name__ == "__main__":
    torch.manual_seed(0)
    report = gw.check(Mish, torch.randn(4, 3))
    print(report)
    raise SystemExit(0 if report.ok else 1)
