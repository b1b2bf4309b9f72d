"""A smooth L1 loss with two masks, the second of which is none."""

import torch
from torch import nn

torch.manual_seed(0)


def smooth_l1(prediction, target, beta=0.5):
    distance = (prediction - target).abs()
    inside = (distance < beta).float()
    outside = 1.0 - distance
    return torch.mean(inside * distance**2 / (2 * beta) + outside * (distance - beta / 2))


model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
x = torch.randn(128, 4)
y = x @ torch.tensor([[3.0], [-2.0], [1.0], [4.0]]) + 5

for step in range(60):
    optimizer.zero_grad()
    loss = smooth_l1(model(x), y)
    loss.backward()
    optimizer.step()
    if step % 20 == 0:
        print(step, loss.item())
