"""A recurrence over a layer's output, taken row by row."""
import torch

torch.manual_seed(0)
embed, head = torch.nn.Linear(4, 60), torch.nn.Linear(60, 1)
optimizer = torch.optim.SGD([*embed.parameters(), *head.parameters()], lr=0.01)
x, y = torch.randn(500, 4), torch.randn(1)
for step in range(4):
    embedded = embed(x)
    hidden = torch.zeros(60)
    for t in range(len(embedded)):
        hidden = torch.tanh(hidden + embedded[t])
    loss = torch.nn.functional.mse_loss(head(hidden), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
