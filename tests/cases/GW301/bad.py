"""A softplus written element by element, forward and backward."""
import torch


class SlowSoftplus(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        out = torch.empty_like(x)
        for i in range(x.shape[0]):
            for j in range(x.shape[1]):
                out[i, j] = torch.log(1 + torch.exp(x[i, j]))
        return out

    @staticmethod
    def backward(ctx, grad_output):
        (x,) = ctx.saved_tensors
        grad_input = torch.zeros_like(x)
        for i in range(x.shape[0]):
            for j in range(x.shape[1]):
                grad_input[i, j] = grad_output[i, j] / (1 + torch.exp(-x[i, j]))
        return grad_input


torch.manual_seed(0)
x = torch.randn(40, 30, requires_grad=True)
loss = SlowSoftplus.apply(x).mean()
loss.backward()
print(f"loss {loss.item():.4f}, gradient {x.grad.norm():.4f}")
