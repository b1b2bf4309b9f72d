"""Every sparse projection of entmax, as attention weights of a small classifier, and one of its losses."""

import argparse

import torch
from entmax import budget_bisect, entmax15, entmax_bisect, normmax_bisect, sparsemax, sparsemax_loss
from torch import nn

PROJECTIONS = {
    "sparsemax": sparsemax,
    "entmax15": entmax15,
    "entmax_bisect": lambda scores: entmax_bisect(scores, alpha=1.3),
    "normmax_bisect": lambda scores: normmax_bisect(scores, alpha=2),
    "budget_bisect": lambda scores: budget_bisect(scores, budget=2),
}


class Reader(nn.Module):
    def __init__(self, project, size=8):
        super().__init__()
        self.project = project
        self.query = nn.Linear(size, 1)
        self.head = nn.Linear(size, 3)

    def forward(self, words):
        weights = self.project(self.query(words).squeeze(-1))
        return self.head((weights[..., None] * words).sum(dim=1))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=5)
    args = parser.parse_args()

    torch.manual_seed(0)
    words = torch.randn(16, 6, 8)
    labels = torch.randint(3, (16,))
    for name, project in PROJECTIONS.items():
        reader = Reader(project)
        optimizer = torch.optim.Adam(reader.parameters(), lr=1e-2)
        for _ in range(args.steps):
            optimizer.zero_grad()
            loss = sparsemax_loss(reader(words), labels).mean()
            loss.backward()
            optimizer.step()
        print(f"{name:15} loss {loss.item():.5f}")

    alpha = nn.Parameter(torch.tensor(1.5))
    scores = torch.randn(16, 6, requires_grad=True)
    weights = entmax_bisect(scores, alpha=alpha)
    loss = (weights**2).sum()
    loss.backward()
    print(f"slope in alpha  {alpha.grad.item():.5f}")


if __name__ == "__main__":
    main()
