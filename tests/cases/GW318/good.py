"""Three steps are profiled, by a schedule; the others run as they would without."""

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
x = torch.randn(32, 8)
y = x.sum(dim=1, keepdim=True)

with torch.profiler.profile(schedule=torch.profiler.schedule(wait=10, warmup=2, active=3, repeat=1)) as prof:
    for step in range(80):
        optimizer.zero_grad()
        loss = (model(x) - y).square().mean()
        loss.backward()
        optimizer.step()
        prof.step()
print(f"{loss.item():.3f}")
