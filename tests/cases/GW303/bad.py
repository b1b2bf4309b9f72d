"""A square with a backward of its own that says what autograd knows."""
import torch


class Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, grad_output):
        (x,) = ctx.saved_tensors
        return 2 * x * grad_output


torch.manual_seed(0)
x = torch.randn(64, 64, requires_grad=True)
loss = Square.apply(x).mean()
loss.backward()
print(f"loss {loss.item():.4f}, gradient {x.grad.norm():.4f}")
