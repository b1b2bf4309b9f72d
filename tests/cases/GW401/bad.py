"""Nine million parameters on the CPU: each step's buffers are taken from the system, and given back to it."""
import torch

torch.manual_seed(0)
target = torch.randn(9_000_000)
estimate = torch.zeros(9_000_000, requires_grad=True)
optimizer = torch.optim.SGD([estimate], lr=1e6)

for step in range(8):
    optimizer.zero_grad()
    loss = (estimate - target).square().mean()
    loss.backward()
    optimizer.step()

print(f"loss {loss.item():.4f}")
