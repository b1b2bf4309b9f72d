"""A softplus as torch has it."""
import torch

torch.manual_seed(0)
x = torch.randn(40, 30, requires_grad=True)
loss = torch.nn.functional.softplus(x).mean()
loss.backward()
print(f"loss {loss.item():.4f}, gradient {x.grad.norm():.4f}")
