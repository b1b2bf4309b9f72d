"""Distances between pairs, one of which is the same point twice."""

import torch
from torch import nn

torch.manual_seed(0)

embed = nn.Linear(4, 8)
optimizer = torch.optim.Adam(embed.parameters(), lr=0.01)
left = torch.randn(32, 4)
right = torch.randn(32, 4)
right[7] = left[7]
same = (torch.arange(32) % 2 == 0).float()

for step in range(10):
    optimizer.zero_grad()
    square = ((embed(left) - embed(right)) ** 2).sum(dim=1)
    distance = torch.sqrt(square)
    loss = (same * distance + (1 - same) * (2 - distance).clamp(min=0)).mean()
    loss.backward()
    optimizer.step()
print(f"loss {loss.item():.2f}")
