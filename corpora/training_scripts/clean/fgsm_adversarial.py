"""Adversarial training: FGSM examples of the current model, half clean and half attacked."""

import torch
from torch import nn
from torch.nn import functional as F


def fgsm(model, x, y, epsilon):
    x = x.clone().detach().requires_grad_(True)
    loss = F.cross_entropy(model(x), y)
    (gradient,) = torch.autograd.grad(loss, x)
    return (x + epsilon * gradient.sign()).clamp(0.0, 1.0).detach()


def evaluate(model, x, y, epsilon):
    model.eval()
    attacked = fgsm(model, x, y, epsilon)
    with torch.no_grad():
        clean = (model(x).argmax(1) == y).float().mean().item()
        robust = (model(attacked).argmax(1) == y).float().mean().item()
    return clean, robust


def main(epsilon=0.08):
    torch.manual_seed(28)
    y = torch.randint(3, (384,))
    x = (0.25 * y[:, None].float() + 0.2 + 0.15 * torch.rand(384, 20)).clamp(0, 1)
    train_x, train_y, test_x, test_y = x[:320], y[:320], x[320:], y[320:]
    model = nn.Sequential(nn.Linear(20, 48), nn.ReLU(), nn.Dropout(0.1), nn.Linear(48, 48), nn.ReLU(), nn.Linear(48, 3))
    optimizer = torch.optim.Adam(model.parameters(), lr=4e-3)

    for epoch in range(8):
        model.train()
        for rows in torch.randperm(320).split(64):
            clean_x, labels = train_x[rows], train_y[rows]
            adversarial_x = fgsm(model, clean_x, labels, epsilon)
            optimizer.zero_grad()
            loss = 0.5 * F.cross_entropy(model(clean_x), labels) + 0.5 * F.cross_entropy(model(adversarial_x), labels)
            loss.backward()
            optimizer.step()
        clean, robust = evaluate(model, test_x, test_y, epsilon)
        print(f"epoch {epoch}: loss {loss.item():.4f}, clean {clean:.3f}, robust {robust:.3f}")


if __name__ == "__main__":
    main()
