"""A gate that opens by a sigmoid."""
import torch
from torch import nn


class Gated(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate = nn.Linear(6, 1)
        self.value = nn.Linear(6, 1)

    def forward(self, x):
        open_ = torch.sigmoid(self.gate(x))
        return open_ * self.value(x)


torch.manual_seed(0)
model = Gated()
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
x = torch.randn(64, 6)
y = x[:, :1].relu()
for epoch in range(8):
    loss = nn.functional.mse_loss(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(f"loss {loss.item():.4f}")
