"""A regression whose prediction and target are both flat."""
import torch

torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(6, 12), torch.nn.Tanh(), torch.nn.Linear(12, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
x = torch.randn(32, 6)
y = x.sum(1)
for epoch in range(6):
    loss = ((model(x).squeeze(1) - y) ** 2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(f"loss {loss.item():.4f}")
