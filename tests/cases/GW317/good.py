"""What is logged stays on the GPU, and is read all at once, every ten steps."""

import torch
from torch import nn

torch.manual_seed(0)
device = "cuda" if torch.cuda.is_available() else "cpu"
model = nn.Sequential(nn.Linear(16, 32), nn.Tanh(), nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 1)).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
x = torch.randn(64, 16, device=device)
y = x.sum(dim=1)

kept, logged, total = [], [], torch.zeros((), device=device)
for step in range(30):
    loss = (model(x)[:, 0] - y).square().mean()
    optimizer.zero_grad()
    loss.backward()
    kept.append(torch.stack([parameter.grad.norm() for parameter in model.parameters()]))
    optimizer.step()
    total += loss.detach()
    if step % 10 == 9:
        logged += torch.stack(kept).tolist()
        kept.clear()
print(f"mean loss {float(total) / 30:.3f}, {len(logged)} steps")
