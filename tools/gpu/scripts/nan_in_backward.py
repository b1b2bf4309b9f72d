"""A distance whose gradient is NaN where two points are the same."""

import argparse

import torch

parser = argparse.ArgumentParser()
parser.add_argument("--device", default="cuda")
device = parser.parse_args().device
torch.manual_seed(0)
layer = torch.nn.Linear(8, 8).to(device)
optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
for step in range(6):
    x = torch.randn(16, 8, device=device)
    y = layer(x)
    if step == 2:
        y = torch.cat([y[:1], y[:1], y[2:]])
    loss = torch.sqrt((y[0] - y[1]).square().sum()) + y.square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, loss.item())
