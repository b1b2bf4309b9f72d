"""Gradient accumulation with a scheduler."""
import torch

torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(6, 12), torch.nn.Tanh(), torch.nn.Linear(12, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
x, y = torch.randn(64, 6), torch.randn(64, 1)
scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=6)
for epoch in range(3):
    for number, (rows, wanted) in enumerate(zip(x.split(8), y.split(8))):
        loss = torch.nn.functional.mse_loss(model(rows), wanted)
        (loss / 4).backward()
        if (number + 1) % 4 == 0:
            optimizer.step()
            optimizer.zero_grad()
            scheduler.step()
print(f"learning rate {scheduler.get_last_lr()[0]:.4f}")
