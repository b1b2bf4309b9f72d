# memcnn 1.5.2, AdditiveBlockInverseFunction.backward (AffineBlockInverseFunction too): the halves change places.
import torch

torch.manual_seed(0)
y = torch.randn(2, 4, requires_grad=True)
y1, y2 = y.chunk(2, 1)
x2 = y2 - torch.tanh(y1)
x = torch.cat([y1 - torch.sin(x2), x2], 1)
g = torch.randn_like(x)
d = torch.autograd.grad(x, (y2, y1), g, retain_graph=True)  # as published: y2 first
print("published", torch.cat([d[0], d[1]], 1)[0].tolist())
print("right    ", torch.autograd.grad(x, y, g)[0][0].tolist())
