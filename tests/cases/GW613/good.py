import torch
from torch import nn

torch.manual_seed(0)
cell = nn.RNNCell(3, 5)
head = nn.Linear(5, 1)
optimizer = torch.optim.SGD([*cell.parameters(), *head.parameters()], lr=0.05)
series = torch.randn(6, 4, 3)
hidden = torch.zeros(4, 5)

for step in range(6):
    hidden = cell(series[step], hidden.detach())
    loss = head(hidden).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, loss.item())
