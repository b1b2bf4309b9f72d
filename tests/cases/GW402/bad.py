"""A softplus that parks its input on ctx."""
import torch


class Softplus(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, beta):
        ctx.x = x
        ctx.beta = beta
        return torch.logaddexp(beta * x, torch.zeros_like(x)) / beta

    @staticmethod
    def backward(ctx, grad_output):
        return grad_output * torch.sigmoid(ctx.beta * ctx.x), None


torch.manual_seed(0)
x = torch.randn(16, 8, requires_grad=True)
loss = Softplus.apply(x, 2.0).mean()
loss.backward()
print(f"loss {loss.item():.4f}, gradient {x.grad.norm():.4f}")
