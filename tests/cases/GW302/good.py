"""A penalty on the slope of each output at its own sample, all samples at once."""
import torch

torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(3, 16), torch.nn.Tanh(), torch.nn.Linear(16, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
target = torch.randn(48, 1)
for step in range(4):
    x = torch.randn(48, 3, requires_grad=True)
    y = model(x)
    (slope,) = torch.autograd.grad(y.sum(), x, create_graph=True)
    penalty = ((slope.norm(dim=1) - 1) ** 2).sum()
    loss = (y - target).pow(2).mean() + penalty / len(x)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(f"loss {loss.item():.4f}")
