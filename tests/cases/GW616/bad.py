import torch
from torch import nn

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(2, 16), nn.Tanh(), nn.Linear(16, 1))
points = torch.rand(32, 2, requires_grad=True)

u = net(points)
u_t = torch.autograd.grad(u.sum(), points[:, 1:2], create_graph=True)[0]
residual = (u_t - u).pow(2).mean()
residual.backward()
print("residual", residual.item())
