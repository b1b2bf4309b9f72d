"""A weighted log-cosh whose backward makes its weights in float64: so is all that they meet."""
import torch


class WeightedLogCosh(torch.autograd.Function):
    @staticmethod
    def forward(ctx, error):
        ctx.save_for_backward(error)
        weights = torch.linspace(0, 1, error.shape[1], dtype=error.dtype)
        return torch.log(torch.cosh(error)) * weights

    @staticmethod
    def backward(ctx, grad_output):
        (error,) = ctx.saved_tensors
        weights = torch.linspace(0, 1, error.shape[1], dtype=torch.float64)
        return (grad_output * weights * torch.tanh(error)).to(error.dtype)


torch.manual_seed(0)
error = torch.randn(1000, 1200, requires_grad=True)
for _ in range(3):
    loss = WeightedLogCosh.apply(error).mean()
    loss.backward()
print(f"loss {loss.item():.4f}")
