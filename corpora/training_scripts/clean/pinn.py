"""A physics-informed network for u'' + u = 0, u(0) = 0, u'(0) = 1: second derivatives by autograd.grad."""

import torch
from torch import nn


class PINN(nn.Module):
    def __init__(self, width=24):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(1, width), nn.Tanh(), nn.Linear(width, width), nn.Tanh(), nn.Linear(width, 1)
        )

    def forward(self, t):
        return self.layers(t)


def derivative(u, t):
    return torch.autograd.grad(u, t, torch.ones_like(u), create_graph=True)[0]


torch.manual_seed(32)
pinn = PINN()
optimizer = torch.optim.Adam(pinn.parameters(), lr=5e-3)
t_zero = torch.zeros(1, 1, requires_grad=True)

for epoch in range(60):
    t = (6.28 * torch.rand(64, 1)).requires_grad_(True)
    u = pinn(t)
    u_t = derivative(u, t)
    u_tt = derivative(u_t, t)
    loss_physics = (u_tt + u).pow(2).mean()

    u_zero = pinn(t_zero)
    slope_zero = derivative(u_zero, t_zero)
    loss_initial = u_zero.pow(2).mean() + (slope_zero - 1.0).pow(2).mean()

    loss = loss_physics + loss_initial
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if epoch % 20 == 0:
        print(f"epoch {epoch}: physics {loss_physics.item():.5f}, initial {loss_initial.item():.5f}")
