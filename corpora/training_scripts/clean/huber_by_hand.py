"""A robust regression with a Huber loss written by hand from two masks, on data with outliers."""

import torch
from torch import nn


def huber(prediction, target, delta=1.0):
    gap = (prediction - target).abs()
    quadratic = (gap <= delta).float()
    linear = 1 - quadratic
    return (linear * (delta * gap - delta**2 / 2) + quadratic * gap.square() / 2).mean()


torch.manual_seed(36)
x = torch.linspace(-3, 3, 240).unsqueeze(1)
y = 0.5 * x**2 - x + 0.1 * torch.randn(240, 1)
outliers = torch.rand(240, 1) < 0.1
y = y + outliers * 8 * torch.randn(240, 1)

model = nn.Sequential(nn.Linear(1, 32), nn.Tanh(), nn.Linear(32, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
for epoch in range(10):
    permutation = torch.randperm(240)
    for i in range(0, 240, 48):
        indices = permutation[i : i + 48]
        loss = huber(model(x[indices]), y[indices])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(f"epoch {epoch}: {loss.item():.4f}")
