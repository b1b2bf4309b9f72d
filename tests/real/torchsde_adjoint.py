"""A neural SDE is fitted to the mean of a noisy decay; its gradient comes from torchsde's adjoint."""

import argparse

import torch
import torchsde
from torch import nn


class NeuralSDE(nn.Module):
    noise_type = "diagonal"
    sde_type = "stratonovich"

    def __init__(self, size=2, width=16):
        super().__init__()
        self.drift = nn.Sequential(nn.Linear(size, width), nn.Tanh(), nn.Linear(width, size))
        self.log_noise = nn.Parameter(torch.full((size,), -2.0))

    def f(self, t, y):
        return self.drift(y)

    def g(self, t, y):
        return self.log_noise.exp() * torch.tanh(y)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--method", choices=["midpoint", "reversible_heun"], default="midpoint")
    args = parser.parse_args()

    torch.manual_seed(0)
    torch.set_default_dtype(torch.float64)
    times = torch.linspace(0.0, 1.0, 3)
    start = torch.ones(16, 2)
    target = torch.exp(-times)[:, None].expand(3, 2)
    sde = NeuralSDE()
    optimizer = torch.optim.Adam(sde.parameters(), lr=2e-2)
    backwards = "adjoint_reversible_heun" if args.method == "reversible_heun" else args.method
    for step in range(args.steps):
        optimizer.zero_grad()
        noise = torchsde.BrownianInterval(0.0, 1.0, size=(16, 2), dtype=torch.float64, entropy=step)
        paths = torchsde.sdeint_adjoint(
            sde, start, times, bm=noise, dt=0.05, method=args.method, adjoint_method=backwards
        )
        loss = (paths.mean(dim=1) - target).square().mean()
        loss.backward()
        optimizer.step()
        if step % 2 == 0:
            print(f"step {step}: loss {loss.item():.6f}")


if __name__ == "__main__":
    main()
