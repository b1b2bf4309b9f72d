"""Copies that are needed: one is written into, one tiles more than one row, one is handed out."""
import torch


class Clipped(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, rows):
        ctx.save_for_backward(x)
        y = x.clone()
        y[:, 0] = 0
        return y + rows.repeat(x.shape[0] // rows.shape[0], 1)

    @staticmethod
    def backward(ctx, grad_output):
        (x,) = ctx.saved_tensors
        grad_x = grad_output.clone()
        grad_x[:, 0] = 0
        return grad_x, None


torch.manual_seed(0)
x = torch.randn(600, 600, requires_grad=True)
rows = torch.randn(2, 600)
for _ in range(3):
    loss = Clipped.apply(x, rows).square().mean()
    loss.backward()
print(f"loss {loss.item():.4f}")
