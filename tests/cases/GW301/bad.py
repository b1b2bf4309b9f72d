"""A softplus written element by element, forward and backward."""
import torch


class SlowSoftplus(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        rows, cols = x.shape
        out = torch.empty_like(x)
        for row in range(rows):
            for col in range(cols):
                out[row, col] = torch.log(1 + torch.exp(x[row, col]))
        return out

    @staticmethod
    def backward(ctx, grad_output):
        (x,) = ctx.saved_tensors
        rows, cols = x.shape
        grad_x = torch.empty_like(x)
        for row in range(rows):
            for col in range(cols):
                grad_x[row, col] = grad_output[row, col] / (1 + torch.exp(-x[row, col]))
        return grad_x


torch.manual_seed(0)
x = torch.randn(40, 30, requires_grad=True)
loss = SlowSoftplus.apply(x).mean()
loss.backward()
print(f"loss {loss.item():.4f}, gradient {x.grad.norm():.4f}")
