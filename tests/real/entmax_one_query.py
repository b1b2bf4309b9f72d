"""One query over six keys, two of them to be kept: budget_bisect on scores (batch, 1, keys), where its gradient is wrong."""

import argparse

import torch
from entmax import budget_bisect
from torch import nn


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=5)
    args = parser.parse_args()

    torch.manual_seed(0)
    keys = torch.randn(16, 6, 8)
    wanted = torch.randn(16, 1, 8)
    query = nn.Parameter(0.05 * torch.randn(16, 1, 8))
    optimizer = torch.optim.SGD([query], lr=1e-3)
    for step in range(args.steps):
        optimizer.zero_grad()
        scores = query @ keys.mT  # (16, 1, 6)
        kept = budget_bisect(scores, budget=2)
        loss = (kept @ keys - wanted).square().mean()
        loss.backward()
        optimizer.step()
        print(f"step {step}: loss {loss.item():.5f}  |gradient| {query.grad.norm().item():.3f}")


if __name__ == "__main__":
    main()
