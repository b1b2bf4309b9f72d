"""A classifier with an exponential moving average of its weights, which is what is evaluated."""

import copy

import torch
from torch import nn


class EMA:
    def __init__(self, model, decay=0.95):
        self.decay = decay
        self.module = copy.deepcopy(model).eval()
        for p in self.module.parameters():
            p.requires_grad_(False)

    @torch.no_grad()
    def update(self, model):
        for ema_p, p in zip(self.module.parameters(), model.parameters(), strict=True):
            ema_p.mul_(self.decay).add_(p, alpha=1 - self.decay)
        for ema_b, b in zip(self.module.buffers(), model.buffers(), strict=True):
            ema_b.copy_(b)


torch.manual_seed(26)
x = torch.randn(320, 6)
y = ((x[:, 0] * x[:, 1] > 0).long() + (x[:, 2] > 0.5).long()).clamp(max=2)

model = nn.Sequential(nn.Linear(6, 48), nn.BatchNorm1d(48), nn.ReLU(), nn.Linear(48, 3))
ema = EMA(model)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
criterion = nn.CrossEntropyLoss()

for epoch in range(8):
    model.train()
    for rows in torch.randperm(320).split(64):
        loss = criterion(model(x[rows]), y[rows])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        ema.update(model)
    with torch.no_grad():
        accuracy = (ema.module(x).argmax(1) == y).float().mean()
    print(f"epoch {epoch}: loss {loss.item():.4f}, averaged accuracy {accuracy:.3f}")
