"""A straight-through sign under torch.compile(torch.func.grad(...)): the gradient is zero."""
import torch


class Sign(torch.autograd.Function):
    @staticmethod
    def forward(x):
        return x.sign()

    @staticmethod
    def setup_context(ctx, inputs, output):
        pass

    @staticmethod
    def backward(ctx, grad_output):
        return grad_output


def loss_of(weight, inputs, targets):
    return (inputs @ Sign.apply(weight) - targets).pow(2).mean()


torch.manual_seed(0)
weight = torch.randn(8)
inputs, targets = torch.randn(64, 8), torch.randn(64)
gradient = torch.compile(torch.func.grad(loss_of), backend="eager")
for step in range(3):
    weight = weight - 0.1 * gradient(weight, inputs, targets)
print(f"moved by {gradient(weight, inputs, targets).abs().sum().item():.3f}")
