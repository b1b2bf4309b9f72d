"""A classifier whose cross entropy is the logarithm of a softmax, by hand."""
import torch
from torch import nn


def cross_entropy(logits, labels):
    probabilities = torch.softmax(logits, dim=1)
    picked = probabilities[torch.arange(len(labels)), labels]
    return -torch.log(picked).mean()


torch.manual_seed(0)
net = nn.Linear(8, 5)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
x, y = torch.randn(40, 8), torch.randint(0, 5, (40,))
for _ in range(4):
    loss = cross_entropy(net(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(f"loss {loss.item():.4f}")
