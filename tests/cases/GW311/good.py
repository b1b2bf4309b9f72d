"""A number written through a mask, and whole rows chosen by one: neither is a choice between tensors."""
import torch


class ReLU(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.clamp(min=0)

    @staticmethod
    def backward(ctx, grad_output):
        (x,) = ctx.saved_tensors
        grad_x = grad_output.clone()
        grad_x[x < 0] = 0
        return grad_x


class FilledRows(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, rows):
        ctx.save_for_backward(rows)
        out = torch.zeros_like(x)
        out[rows] = x[rows]
        return out

    @staticmethod
    def backward(ctx, grad_output):
        (rows,) = ctx.saved_tensors
        return grad_output * rows[:, None], None


torch.manual_seed(0)
x = torch.randn(600, 600, requires_grad=True)
rows = torch.rand(600) < 0.5
for _ in range(3):
    loss = ReLU.apply(FilledRows.apply(x, rows)).mean()
    loss.backward()
print(f"loss {loss.item():.4f}")
