"""Swish with one sigmoid; another function whose two exponentials are of different values."""
import torch


class Swish(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * torch.sigmoid(x)

    @staticmethod
    def backward(ctx, grad_output):
        (x,) = ctx.saved_tensors
        gate = torch.sigmoid(x)
        slope = torch.addcmul(gate, x * gate, 1 - gate)
        return grad_output * slope


class TwiceExp(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        y = torch.exp(x)
        x = x - 1
        y = y + torch.exp(x)
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, grad_output):
        (y,) = ctx.saved_tensors
        return grad_output * y


torch.manual_seed(0)
x = torch.randn(500, 500, requires_grad=True)
for _ in range(3):
    loss = (Swish.apply(x) + TwiceExp.apply(x)).mean()
    loss.backward()
print(f"loss {loss.item():.4f}")
