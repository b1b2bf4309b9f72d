"""A steeper backward, written as a plain function: autograd never hears of it."""

import torch
from torch import nn

torch.manual_seed(0)


def leaky_cube(x):
    return torch.where(x > 0, x**3, 0.1 * x)


def leaky_cube_backward(grad_output, x):
    # steeper than the true slope near zero, so that small activations still learn
    slope = torch.where(x > 0, 3 * x**2 + 0.1, torch.full_like(x, 0.1))
    return grad_output * slope


model = nn.Sequential(nn.Linear(6, 16), nn.Linear(16, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
inputs = torch.randn(64, 6)
targets = inputs[:, :1] * 0.5

for epoch in range(20):
    optimizer.zero_grad()
    hidden = leaky_cube(model[0](inputs))
    loss = ((model[1](hidden) - targets) ** 2).mean()
    loss.backward()
    optimizer.step()
print(f"loss {loss.item():.4f}")
