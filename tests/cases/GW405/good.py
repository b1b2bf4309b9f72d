"""A squashed quick GELU, which saves its input alone."""
import torch
from torch.autograd.function import once_differentiable


class SquashedGELU(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return torch.tanh(x * torch.sigmoid(1.702 * x))

    @staticmethod
    @once_differentiable
    def backward(ctx, grad_output):
        (x,) = ctx.saved_tensors
        gate = torch.sigmoid(1.702 * x)
        y = torch.tanh(x * gate)
        return grad_output * (1 - y * y) * (gate + 1.702 * x * gate * (1 - gate))


torch.manual_seed(0)
x = torch.randn(128, 160, requires_grad=True)
loss = SquashedGELU.apply(x).square().mean()
loss.backward()
print(f"loss {loss.item():.4f}, gradient {x.grad.norm():.4f}")
