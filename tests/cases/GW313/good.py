"""A search for a NaN, in the one step where it may be."""
import contextlib

import torch

torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(6, 12), torch.nn.ReLU(), torch.nn.Linear(12, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
x, y = torch.randn(64, 6), torch.randn(64, 1)
for step in range(12):
    optimizer.zero_grad()
    with torch.autograd.detect_anomaly() if step == 3 else contextlib.nullcontext():
        loss = torch.nn.functional.mse_loss(model(x), y)
        loss.backward()
    optimizer.step()
print(f"loss {loss.item():.4f}")
