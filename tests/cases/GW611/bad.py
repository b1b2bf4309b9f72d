import torch
from torch import nn

torch.manual_seed(0)
model = nn.Linear(3, 1)
criterion = nn.MSELoss(reduction="none")
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
x, y = torch.randn(64, 3), torch.randn(64, 1)

for epoch in range(3):
    optimizer.zero_grad()
    loss = criterion(model(x), y)
    loss.backward()
    optimizer.step()
    print(epoch, loss.mean().item())
