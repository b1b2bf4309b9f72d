"""Binary weights with a straight-through estimator, declared."""
import torch

import gradwright as gw


@gw.surrogate(reason="straight-through")
class Binarize(torch.autograd.Function):
    @staticmethod
    def forward(ctx, weight):
        return torch.sign(weight)

    @staticmethod
    def backward(ctx, grad_output):
        return grad_output


torch.manual_seed(0)
weight = torch.randn(8, 4, requires_grad=True)
x, y = torch.randn(16, 8), torch.randn(16, 4)
optimizer = torch.optim.SGD([weight], lr=0.1)
for step in range(5):
    optimizer.zero_grad()
    loss = (x @ Binarize.apply(weight) - y).abs().mean()
    loss.backward()
    optimizer.step()
print(f"loss {loss.item():.4f}")
