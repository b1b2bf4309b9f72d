"""An unbalanced binary problem with a focal loss by hand, on logits, and a precision-recall report."""

import torch
import torch.nn.functional as F
from torch import nn


class FocalLoss(nn.Module):
    def __init__(self, alpha=0.75, gamma=2.0):
        super().__init__()
        self.alpha, self.gamma = alpha, gamma

    def forward(self, logits, targets):
        bce = F.binary_cross_entropy_with_logits(logits, targets, reduction="none")
        p = torch.sigmoid(logits)
        p_t = p * targets + (1 - p) * (1 - targets)
        alpha_t = self.alpha * targets + (1 - self.alpha) * (1 - targets)
        return (alpha_t * (1 - p_t) ** self.gamma * bce).mean()


def report(model, x, y):
    with torch.no_grad():
        predicted = model(x).squeeze(-1) > 0
    hits = (predicted & (y > 0)).sum().item()
    return hits / max(predicted.sum().item(), 1), hits / max(int(y.sum().item()), 1)


def main():
    torch.manual_seed(37)
    y = (torch.rand(480) < 0.08).float()
    x = torch.randn(480, 6) + 1.6 * y[:, None] * torch.tensor([1.0, -1.0, 0.5, 0.0, 0.0, 1.0])
    model = nn.Sequential(nn.Linear(6, 24), nn.ReLU(), nn.Linear(24, 1))
    criterion = FocalLoss()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for epoch in range(8):
        for rows in torch.randperm(480).split(80):
            optimizer.zero_grad()
            loss = criterion(model(x[rows]).squeeze(-1), y[rows])
            loss.backward()
            optimizer.step()
        precision, recall = report(model, x, y)
        print(f"epoch {epoch}: loss {loss.item():.5f}, precision {precision:.2f}, recall {recall:.2f}")


if __name__ == "__main__":
    main()
