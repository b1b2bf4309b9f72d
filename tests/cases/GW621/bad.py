"""A loss that is wrapped in a new tensor, so that backward does not complain."""
import torch

torch.manual_seed(0)
model = torch.nn.Linear(6, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
x, y = torch.randn(64, 6), torch.randn(64, 1)
for epoch in range(6):
    error = (model(x) - y).abs().mean().item()
    loss = torch.tensor(error, requires_grad=True)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(f"loss {loss.item():.4f}")
