"""A loop over autograd.grad: the gradient of every output of a batch, one call each, with create_graph."""

import argparse

import torch
from torch import nn


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--batch-size", type=int, default=64)
    args = parser.parse_args()

    torch.manual_seed(0)
    torch.set_num_threads(1)
    model = nn.Sequential(nn.Linear(3, 32), nn.Tanh(), nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for _ in range(args.steps):
        x = torch.randn(args.batch_size, 3, requires_grad=True)
        y = model(x)
        optimizer.zero_grad()
        loss = y.square().mean()
        for i in range(args.batch_size):
            slope = torch.autograd.grad(y[i, 0], x, create_graph=True)[0][i]
            loss = loss + (slope.norm() - 1).square() / args.batch_size
        loss.backward()
        optimizer.step()
    checksum = sum(parameter.detach().double().sum().item() for parameter in model.parameters())
    print(float(loss.item()).hex(), float(checksum).hex())


if __name__ == "__main__":
    main()
