"""A square whose backward visits each element in Python; on a GPU each of them is a few launches."""

import argparse

import torch


class Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, grad_output):
        (x,) = ctx.saved_tensors
        grad_input = torch.zeros_like(x)
        for i in range(x.shape[0]):
            for j in range(x.shape[1]):
                grad_input[i, j] = 2 * x[i, j] * grad_output[i, j]
        return grad_input


parser = argparse.ArgumentParser()
parser.add_argument("--device", default="cuda")
device = parser.parse_args().device
torch.manual_seed(0)
weight = torch.randn(40, 40, device=device, requires_grad=True)
optimizer = torch.optim.SGD([weight], lr=0.01)
for _ in range(3):
    loss = Square.apply(weight).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print("done")
