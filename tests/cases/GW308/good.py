"""The gradient of a square without a temporary; a small one, where nobody waits for it."""
import torch


class Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, grad_output):
        (x,) = ctx.saved_tensors
        return (x * grad_output).mul_(2)


class SmallSquare(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, grad_output):
        (x,) = ctx.saved_tensors
        return 2 * x * grad_output


torch.manual_seed(0)
x = torch.randn(1000, 800, requires_grad=True)
small = torch.randn(20, 20, requires_grad=True)
for _ in range(3):
    loss = Square.apply(x).mean() + SmallSquare.apply(small).mean()
    loss.backward()
print(f"loss {loss.item():.4f}")
