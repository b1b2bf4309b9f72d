"""A recurrent network's outputs, joined to one tensor behind the loop."""
import torch

torch.manual_seed(0)
cell, head = torch.nn.RNNCell(4, 64), torch.nn.Linear(64, 1)
optimizer = torch.optim.SGD([*cell.parameters(), *head.parameters()], lr=0.01)
x, y = torch.randn(200, 128, 4), torch.randn(200, 128, 1)
for step in range(4):
    hidden = torch.zeros(128, 64)
    outputs = []
    for now in x:
        hidden = cell(now, hidden)
        outputs.append(hidden)
    loss = torch.nn.functional.mse_loss(head(torch.stack(outputs)), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
