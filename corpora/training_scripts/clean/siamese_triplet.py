"""A siamese network with a triplet loss by hand: distances with an eps under the root, the hardest negative."""

import torch
from torch import nn


class Embedder(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(10, 32), nn.ELU(), nn.Linear(32, 4))

    def forward(self, x):
        e = self.net(x)
        return e / e.norm(dim=1, keepdim=True).clamp(min=1e-6)


def distance(a, b):
    return torch.sqrt(((a - b) ** 2).sum(dim=-1) + 1e-8)


def triplet_loss(anchor, positive, labels, margin=0.3):
    to_positive = distance(anchor, positive)
    between = distance(anchor.unsqueeze(1), positive.unsqueeze(0))
    same = labels.unsqueeze(1) == labels.unsqueeze(0)
    to_negative = between.masked_fill(same, float("inf")).min(dim=1).values
    return torch.relu(to_positive - to_negative + margin).mean()


def main():
    torch.manual_seed(23)
    classes = torch.randn(8, 10)
    embedder = Embedder()
    optimizer = torch.optim.Adam(embedder.parameters(), lr=5e-3)
    for step in range(50):
        labels = torch.randint(8, (48,))
        first = classes[labels] + 0.4 * torch.randn(48, 10)
        second = classes[labels] + 0.4 * torch.randn(48, 10)
        loss = triplet_loss(embedder(first), embedder(second), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 10 == 0:
            print(f"{step:3d} {loss.item():.4f}")


if __name__ == "__main__":
    main()
