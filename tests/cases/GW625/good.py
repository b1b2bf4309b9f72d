"""A validation after each epoch, and train mode at the start of each."""
import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Dropout(0.3), nn.Linear(16, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
x, y = torch.randn(64, 8), torch.randn(64, 1)
for epoch in range(3):
    model.train()
    for rows in torch.randperm(48).split(16):
        loss = nn.functional.mse_loss(model(x[rows]), y[rows])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    model.eval()
    with torch.no_grad():
        held_out = nn.functional.mse_loss(model(x[48:]), y[48:])
print(f"held out {held_out.item():.4f}")
