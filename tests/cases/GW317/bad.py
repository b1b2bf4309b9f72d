"""The gradient's norm of each parameter and the loss are read in every step: eight times Python waits for the GPU."""

import torch
from torch import nn

torch.manual_seed(0)
device = "cuda" if torch.cuda.is_available() else "cpu"
model = nn.Sequential(nn.Linear(16, 32), nn.Tanh(), nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 1)).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
x = torch.randn(64, 16, device=device)
y = x.sum(dim=1)

norms, best, total = [], float("inf"), 0.0
for step in range(30):
    loss = (model(x)[:, 0] - y).square().mean()
    optimizer.zero_grad()
    loss.backward()
    norms.append([parameter.grad.norm().item() for parameter in model.parameters()])
    optimizer.step()
    total += float(loss)
    if loss < best:
        best = loss.detach()
print(f"mean loss {total / 30:.3f}, {len(norms)} steps")
