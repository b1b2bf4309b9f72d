"""A small segmenter is trained with kornia's focal loss, on images large enough for its own CPU gradient."""

import argparse

import kornia
import torch
from torch import nn


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--size", type=int, default=192)
    args = parser.parse_args()

    torch.manual_seed(0)
    images = torch.rand(8, 3, args.size, args.size)
    labels = (images.mean(dim=1) * 4).long().clamp(0, 3)
    labels[:, :4] = -100  # an ignored border
    model = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 4, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for step in range(args.steps):
        optimizer.zero_grad()
        loss = kornia.losses.focal_loss(model(images), labels, alpha=None, gamma=2.0, reduction="mean")
        loss.backward()
        optimizer.step()
        print(f"step {step}: loss {loss.item():.5f}")


if __name__ == "__main__":
    main()
