"""A pretrained linear model adapted with LoRA: the base frozen, low-rank updates trained, merged at the end."""

import math

import torch
import torch.nn as nn
import torch.nn.functional as F


class LoRALinear(nn.Module):
    def __init__(self, base, rank=4, alpha=8.0):
        super().__init__()
        self.base = base
        self.base.requires_grad_(False)
        self.scaling = alpha / rank
        self.lora_A = nn.Parameter(torch.empty(rank, base.in_features))
        self.lora_B = nn.Parameter(torch.zeros(base.out_features, rank))
        nn.init.kaiming_uniform_(self.lora_A, a=math.sqrt(5))

    def forward(self, x):
        return self.base(x) + F.linear(F.linear(x, self.lora_A), self.lora_B) * self.scaling

    def merged(self):
        with torch.no_grad():
            self.base.weight += self.scaling * self.lora_B @ self.lora_A
        return self.base


def pretrain(model, x, y):
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    for _ in range(25):
        optimizer.zero_grad()
        loss = F.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
    return loss.item()


def add_lora(model):
    for i, layer in enumerate(model):
        if isinstance(layer, nn.Linear):
            model[i] = LoRALinear(layer)


def main():
    torch.manual_seed(39)
    x = torch.randn(192, 16)
    first, second = torch.randn(16, 2), torch.randn(16, 2)
    model = nn.Sequential(nn.Linear(16, 48), nn.ReLU(), nn.Linear(48, 2))
    print(f"pretrained: {pretrain(model, x, x @ first):.4f}")

    add_lora(model)
    trainable = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(trainable, lr=1e-2)
    target = x @ (first + 0.5 * second)
    for step in range(40):
        optimizer.zero_grad()
        loss = F.mse_loss(model(x), target)
        loss.backward()
        optimizer.step()
        if step % 10 == 0:
            print(f"step {step}: {loss.item():.4f}")
    for i, layer in enumerate(model):
        if isinstance(layer, LoRALinear):
            model[i] = layer.merged()
    with torch.no_grad():
        print(f"merged: {F.mse_loss(model(x), target).item():.4f}")


if __name__ == "__main__":
    main()
