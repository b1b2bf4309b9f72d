import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(0)
model = nn.Linear(4, 1)
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
batches = [(torch.randn(8, 4), torch.randn(8, 1)) for _ in range(3)]

for epoch in range(2):
    optimizer.zero_grad()
    losses = [F.mse_loss(model(x), y).item() for x, y in batches]
    loss = torch.tensor(losses).mean()
    loss.backward()
    optimizer.step()
    print(epoch, loss.item())
