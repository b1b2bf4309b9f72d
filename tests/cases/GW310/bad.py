"""A running sum in NumPy, whose backward is one from the other end, in NumPy too."""
import numpy as np
import torch


class RunningSum(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        rows = x.detach().numpy()
        return torch.from_numpy(np.cumsum(rows, axis=1))

    @staticmethod
    def backward(ctx, grad_output):
        cotangent = grad_output.numpy()
        total = cotangent.sum(axis=1, keepdims=True)
        return torch.tensor(cotangent + total - np.cumsum(cotangent, axis=1))


torch.manual_seed(0)
x = torch.randn(200, 400, requires_grad=True)
for _ in range(20):
    loss = RunningSum.apply(x).square().mean()
    loss.backward()
print(f"loss {loss.item():.4f}")
