# qpth 0.0.18, QPFunction.backward: what all rows share gets `dGs.mean(0)` and the like; the derivative is the sum.
# Smallest programme: min x²/2 - p x subject to x <= h, with p > h: the solution is x = h, and dx/dh = 1 in every row.
import torch

h = torch.tensor([1.0], requires_grad=True)
p = torch.tensor([[2.0], [3.0], [4.0], [5.0]])
x = torch.minimum(p, h)  # (4, 1): the solution of all four
right = torch.autograd.grad(x.sum(), h)[0]
published = torch.ones(4, 1).mean(0)  # dhs.mean(0)
print("published", published.tolist(), "right", right.tolist())
