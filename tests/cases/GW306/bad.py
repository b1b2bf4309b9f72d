"""A linear layer that writes its products down before it sums them, forward and backward."""
import torch


class BroadcastLinear(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight):
        ctx.save_for_backward(x, weight)
        return (x[:, :, None] * weight[None]).sum(1)

    @staticmethod
    def backward(ctx, grad_output):
        x, weight = ctx.saved_tensors
        return grad_output @ weight.T, x.T @ grad_output


torch.manual_seed(0)
x = torch.randn(520, 300, requires_grad=True)
weight = torch.randn(300, 8, requires_grad=True)
for _ in range(3):
    loss = BroadcastLinear.apply(x, weight).square().mean()
    loss.backward()
print(f"loss {loss.item():.4f}")
