"""A neural ODE learns a spiral; its gradient comes from torchdiffeq's adjoint."""

import argparse

import torch
from torch import nn
from torchdiffeq import odeint, odeint_adjoint


class Spiral(nn.Module):
    def __init__(self):
        super().__init__()
        self.matrix = torch.tensor([[-0.1, 2.0], [-2.0, -0.1]])

    def forward(self, t, y):
        return (y**3) @ self.matrix


class Dynamics(nn.Module):
    def __init__(self, width=24):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(2, width), nn.Tanh(), nn.Linear(width, 2))

    def forward(self, t, y):
        return self.net(y**3)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=12)
    args = parser.parse_args()

    torch.manual_seed(0)
    times = torch.linspace(0.0, 1.0, 8)
    start = torch.tensor([[2.0, 0.0], [1.0, 1.0], [0.0, 1.5]])
    with torch.no_grad():
        target = odeint(Spiral(), start, times)

    dynamics = Dynamics()
    optimizer = torch.optim.Adam(dynamics.parameters(), lr=1e-2)
    for step in range(args.steps):
        optimizer.zero_grad()
        path = odeint_adjoint(dynamics, start, times, rtol=1e-5, atol=1e-6, method="dopri5")
        loss = (path - target).abs().mean()
        loss.backward()
        optimizer.step()
        if step % 4 == 0:
            print(f"step {step}: loss {loss.item():.5f}")


if __name__ == "__main__":
    main()
