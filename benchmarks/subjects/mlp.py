"""An ordinary training loop: a three-layer MLP, Adam, synthetic data."""

import argparse

import torch
from torch import nn


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=2000)
    args = parser.parse_args()

    torch.manual_seed(0)
    torch.set_num_threads(1)
    model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 10))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    inputs = torch.randn(4096, 64)
    labels = torch.randint(10, (4096,))
    for _ in range(args.steps):
        batch = torch.randint(len(inputs), (128,))
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(inputs[batch]), labels[batch])
        loss.backward()
        optimizer.step()
    checksum = sum(parameter.detach().double().sum().item() for parameter in model.parameters())
    print(float(loss.item()).hex(), float(checksum).hex())


if __name__ == "__main__":
    main()
