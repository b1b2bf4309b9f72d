"""Gradient accumulation done right: each micro-batch divided by the window, the short last window by its own size."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(25)
ACCUMULATE = 4

x = torch.randn(352, 12)
y = (x[:, :4].sum(dim=1, keepdim=True) > 0).float()
loader = DataLoader(TensorDataset(x, y), batch_size=16, shuffle=True)  # 22 micro-batches: 5 windows of 4, one of 2

model = nn.Sequential(nn.Linear(12, 32), nn.Tanh(), nn.Linear(32, 1))
criterion = nn.BCEWithLogitsLoss()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.97)

for epoch in range(4):
    epoch_loss = 0.0
    optimizer.zero_grad()
    for i, (inputs, labels) in enumerate(loader):
        window = min(ACCUMULATE, len(loader) - i // ACCUMULATE * ACCUMULATE)
        loss = criterion(model(inputs), labels) / window
        loss.backward()
        epoch_loss += loss.item() * window

        if (i + 1) % ACCUMULATE == 0 or i + 1 == len(loader):
            nn.utils.clip_grad_norm_(model.parameters(), 5.0)
            optimizer.step()
            optimizer.zero_grad()
            scheduler.step()
    print(f"epoch {epoch}: loss {epoch_loss / len(loader):.4f}")
