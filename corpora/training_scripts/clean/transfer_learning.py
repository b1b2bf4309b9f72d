"""Transfer learning: a backbone trained on one task, frozen, with a new head for another."""

import torch
from torch import nn


class Backbone(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(1, 8, 3, padding=1)
        self.bn = nn.BatchNorm2d(8)
        self.pool = nn.AdaptiveAvgPool2d(2)

    def forward(self, x):
        return self.pool(torch.relu(self.bn(self.conv(x)))).flatten(1)


class Model(nn.Module):
    def __init__(self, classes):
        super().__init__()
        self.backbone = Backbone()
        self.fc = nn.Linear(32, classes)

    def forward(self, x):
        return self.fc(self.backbone(x))


def images_of(classes, n):
    labels = torch.randint(classes, (n,))
    grid = torch.linspace(0, 3.14159, 8)
    waves = torch.stack([torch.outer(torch.sin((k + 1) * grid), torch.cos(k * grid)) for k in range(classes)])
    return waves[labels].unsqueeze(1) + 0.3 * torch.randn(n, 1, 8, 8), labels


def fit(model, optimizer, images, labels, steps):
    criterion = nn.CrossEntropyLoss()
    for step in range(steps):
        rows = torch.randint(len(images), (48,))
        optimizer.zero_grad()
        loss = criterion(model(images[rows]), labels[rows])
        loss.backward()
        optimizer.step()
        if step % 10 == 0:
            print(f"  step {step}: loss {loss.item():.4f}")


torch.manual_seed(20)

print("pretraining")
model = Model(classes=4)
model.train()
fit(model, torch.optim.Adam(model.parameters(), lr=5e-3), *images_of(4, 256), steps=30)

print("fine-tuning a new head")
for p in model.backbone.parameters():
    p.requires_grad = False
model.fc = nn.Linear(32, 2)
model.backbone.eval()
optimizer = torch.optim.SGD(model.fc.parameters(), lr=0.1, momentum=0.9)
new_images, new_labels = images_of(2, 128)
fit(model, optimizer, new_images, new_labels, steps=25)

model.eval()
with torch.no_grad():
    print("accuracy", (model(new_images).argmax(1) == new_labels).float().mean().item())
