"""A RealNVP of four couplings on two moons, trained by maximum likelihood; samples by the inverse."""

import math

import torch
from torch import nn


class Coupling(nn.Module):
    def __init__(self, mask, hidden=32):
        super().__init__()
        self.register_buffer("mask", mask)
        self.net = nn.Sequential(nn.Linear(2, hidden), nn.Tanh(), nn.Linear(hidden, 4))

    def scale_and_shift(self, kept):
        s, t = self.net(kept).chunk(2, dim=1)
        return torch.tanh(s) * (1 - self.mask), t * (1 - self.mask)

    def forward(self, x):
        s, t = self.scale_and_shift(x * self.mask)
        z = x * self.mask + (1 - self.mask) * (x * torch.exp(s) + t)
        return z, s.sum(dim=1)

    def inverse(self, z):
        s, t = self.scale_and_shift(z * self.mask)
        return z * self.mask + (1 - self.mask) * (z - t) * torch.exp(-s)


class RealNVP(nn.Module):
    def __init__(self, couplings=4):
        super().__init__()
        masks = [torch.tensor([1.0, 0.0]), torch.tensor([0.0, 1.0])]
        self.couplings = nn.ModuleList([Coupling(masks[i % 2]) for i in range(couplings)])

    def log_prob(self, x):
        log_det = torch.zeros(x.size(0))
        for coupling in self.couplings:
            x, contribution = coupling(x)
            log_det = log_det + contribution
        base = -0.5 * (x**2).sum(dim=1) - math.log(2 * math.pi)
        return base + log_det

    @torch.no_grad()
    def sample(self, n):
        z = torch.randn(n, 2)
        for coupling in reversed(self.couplings):
            z = coupling.inverse(z)
        return z


def two_moons(n):
    angle = math.pi * torch.rand(n)
    upper = torch.rand(n) < 0.5
    x = torch.where(upper, angle.cos(), 1 - angle.cos())
    y = torch.where(upper, angle.sin(), 0.5 - angle.sin())
    return torch.stack((x, y), dim=1) + 0.05 * torch.randn(n, 2)


if __name__ == "__main__":
    torch.manual_seed(31)
    flow = RealNVP()
    optimizer = torch.optim.Adam(flow.parameters(), lr=5e-3)
    for step in range(60):
        nll = -flow.log_prob(two_moons(128)).mean()
        optimizer.zero_grad()
        nll.backward()
        optimizer.step()
        if step % 20 == 0:
            print(f"step {step}: nll {nll.item():.4f}, mean of samples {flow.sample(64).mean().item():.3f}")
