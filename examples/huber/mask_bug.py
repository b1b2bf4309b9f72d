"""Linear regression with a Huber loss of one's own, written with two masks."""

import argparse

import torch
from torch import nn


class HuberLoss(nn.Module):
    def __init__(self, limit=1.0):
        super().__init__()
        self.limit = limit

    def forward(self, prediction, target):
        gap = (prediction - target).abs()
        line = self.limit * gap - self.limit**2 / 2
        parabola = gap.square() / 2
        inside = gap <= self.limit
        outside = 1 - gap
        return torch.mean(outside * line + inside * parabola)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=200)
    parser.add_argument("--lr", type=float, default=0.1)
    args = parser.parse_args()

    torch.manual_seed(0)
    x = 2 * torch.rand(100, 1)
    y = 10 * x + 3 + 0.5 * torch.randn(100, 1)

    model = nn.Linear(1, 1)
    criterion = HuberLoss(limit=1.0)
    optimizer = torch.optim.SGD(model.parameters(), lr=args.lr)
    for epoch in range(args.epochs):
        optimizer.zero_grad()
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()
        if epoch % 20 == 0:
            print(f"epoch {epoch}: loss {loss.item():.4f}")
    print(f"y = {model.weight.item():.2f} x + {model.bias.item():.2f}")


if __name__ == "__main__":
    main()
