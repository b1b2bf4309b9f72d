"""A square."""
import torch

torch.manual_seed(0)
x = torch.randn(64, 64, requires_grad=True)
loss = (x * x).mean()
loss.backward()
print(f"loss {loss.item():.4f}, gradient {x.grad.norm():.4f}")
