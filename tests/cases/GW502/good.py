"""The same regression with a learning rate that fits."""

import torch
from torch import nn

torch.manual_seed(0)

model = nn.Sequential(nn.Linear(3, 16), nn.ReLU(), nn.Linear(16, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
x = torch.randn(64, 3)
y = x.sum(dim=1, keepdim=True) * 3

for step in range(40):
    optimizer.zero_grad()
    loss = ((model(x) - y) ** 2).mean()
    loss.backward()
    optimizer.step()
print(f"loss {loss.item()}")
