"""An autoencoder whose decoder is held to unit speed: ‖dpoint/dcode‖ = 1 at every sample."""

import argparse

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Autoencoder(nn.Module):
    def __init__(self, width=16):
        super().__init__()
        self.encoder = nn.Linear(2, 1)
        self.decoder = nn.Sequential(nn.Linear(1, width), nn.Tanh(), nn.Linear(width, 2))

    def forward(self, x):
        code = self.encoder(x)
        return self.decoder(code), code


def speed_penalty(points, code):
    penalty = 0.0
    for n in range(len(points)):
        across = torch.autograd.grad(points[n, 0], code, create_graph=True)[0][n]
        upward = torch.autograd.grad(points[n, 1], code, create_graph=True)[0][n]
        penalty += (1 - torch.hypot(across, upward)).abs().sum()
    return penalty


def points_on_an_arc(count):
    angle = torch.rand(count) * 3.0
    noise = 0.05 * torch.randn(count, 2)
    return torch.stack([torch.cos(angle), torch.sin(angle)], dim=1) + noise


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--weight", type=float, default=0.01, help="of the penalty")
    args = parser.parse_args()

    torch.manual_seed(0)
    loader = DataLoader(TensorDataset(points_on_an_arc(512)), batch_size=args.batch_size, shuffle=True)
    model = Autoencoder()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for epoch in range(args.epochs):
        for (x,) in loader:
            optimizer.zero_grad()
            points, code = model(x)
            fit = F.mse_loss(points, x)
            penalty = speed_penalty(points, code)
            loss = fit + args.weight * penalty
            loss.backward()
            optimizer.step()
        print(f"epoch {epoch}: fit {fit.item():.6f}  penalty {penalty.item():.6f}  loss {loss.item():.6f}")


if __name__ == "__main__":
    main()
