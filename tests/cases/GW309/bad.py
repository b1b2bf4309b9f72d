"""A gated ReLU whose gains are repeated for every row, only to be multiplied."""
import torch


class Gated(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, gain):
        ctx.save_for_backward(x, gain)
        return x.relu() * gain

    @staticmethod
    def backward(ctx, grad_output):
        x, gain = ctx.saved_tensors
        return grad_output * gain.repeat(x.shape[0], 1) * (x > 0), None


torch.manual_seed(0)
x = torch.randn(1500, 1200, requires_grad=True)
gain = torch.rand(1200) + 0.5
for _ in range(3):
    loss = Gated.apply(x, gain).mean()
    loss.backward()
print(f"loss {loss.item():.4f}")
