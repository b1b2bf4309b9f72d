"""A scale whose backward returns half of the weight's gradient."""

import argparse

import torch


class Scale(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight):
        ctx.save_for_backward(x, weight)
        return x * weight

    @staticmethod
    def backward(ctx, grad_output):
        x, weight = ctx.saved_tensors
        return grad_output * weight, 0.5 * (grad_output * x).sum(0)


parser = argparse.ArgumentParser()
parser.add_argument("--device", default="cuda")
device = parser.parse_args().device
torch.manual_seed(0)
weight = torch.randn(16, device=device, requires_grad=True)
layer = torch.nn.Linear(16, 1).to(device)
optimizer = torch.optim.SGD([weight, *layer.parameters()], lr=0.01)
for _ in range(20):
    x = torch.randn(32, 16, device=device)
    loss = (layer(Scale.apply(x, weight)) - x.sum(1, keepdim=True)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print("done")
