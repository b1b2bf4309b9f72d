"""The profiler was there to look at a few steps, and stayed around all of them."""

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
x = torch.randn(32, 8)
y = x.sum(dim=1, keepdim=True)

with torch.profiler.profile() as prof:
    for step in range(80):
        optimizer.zero_grad()
        loss = (model(x) - y).square().mean()
        loss.backward()
        optimizer.step()
print(f"{loss.item():.3f}")
