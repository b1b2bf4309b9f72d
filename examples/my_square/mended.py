"""Fit y = (x·w)² with a layer that squares its input, its backward written by hand and connected."""

import argparse

import torch
from torch import nn


class MySquare(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, grad_output):
        # y = x², so dy/dx = 2x
        (x,) = ctx.saved_tensors
        return grad_output * (2 * x)


class SquareNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(10, 5)

    def forward(self, x):
        return MySquare.apply(self.linear(x))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--batch-size", type=int, default=32)
    args = parser.parse_args()

    torch.manual_seed(0)
    inputs = torch.randn(256, 10)
    targets = (inputs @ torch.randn(10, 5)) ** 2

    model = SquareNet()
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
