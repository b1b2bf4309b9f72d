"""A small ResNet with BatchNorm: decay groups, label smoothing, cosine schedule, accuracy on a held-out set."""

import math

import torch
from torch import nn


class BasicBlock(nn.Module):
    def __init__(self, in_planes, planes, stride=1):
        super().__init__()
        self.conv1 = nn.Conv2d(in_planes, planes, 3, stride=stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(planes)
        self.conv2 = nn.Conv2d(planes, planes, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(planes)
        self.relu = nn.ReLU(inplace=True)
        self.downsample = None
        if stride != 1 or in_planes != planes:
            self.downsample = nn.Sequential(
                nn.Conv2d(in_planes, planes, 1, stride=stride, bias=False), nn.BatchNorm2d(planes)
            )

    def forward(self, x):
        identity = x if self.downsample is None else self.downsample(x)
        out = self.relu(self.bn1(self.conv1(x)))
        out = self.bn2(self.conv2(out))
        out += identity
        return self.relu(out)


class ResNet(nn.Module):
    def __init__(self, classes=5):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8), nn.ReLU(inplace=True))
        self.layers = nn.Sequential(BasicBlock(8, 8), BasicBlock(8, 16, stride=2), BasicBlock(16, 32, stride=2))
        self.head = nn.Linear(32, classes)

    def forward(self, x):
        x = self.layers(self.stem(x))
        x = x.mean(dim=(2, 3))
        return self.head(x)


def accuracy(model, images, labels):
    model.eval()
    with torch.no_grad():
        hits = (model(images).argmax(dim=1) == labels).float().mean()
    return hits.item()


torch.manual_seed(3)
prototypes = torch.randn(5, 3, 8, 8)
labels = torch.randint(5, (320,))
images = prototypes[labels] + 0.8 * torch.randn(320, 3, 8, 8)
train_x, train_y, test_x, test_y = images[:256], labels[:256], images[256:], labels[256:]

model = ResNet()
decay = [p for p in model.parameters() if p.dim() > 1]
no_decay = [p for p in model.parameters() if p.dim() <= 1]
optimizer = torch.optim.SGD(
    [{"params": decay, "weight_decay": 5e-4}, {"params": no_decay, "weight_decay": 0.0}],
    lr=0.05,
    momentum=0.9,
    nesterov=True,
)
epochs, batch = 6, 32
scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=epochs)
criterion = nn.CrossEntropyLoss(label_smoothing=0.1)

for epoch in range(epochs):
    model.train()
    order = torch.randperm(len(train_x))
    total = 0.0
    for start in range(0, len(train_x), batch):
        index = order[start : start + batch]
        logits = model(train_x[index])
        loss = criterion(logits, train_y[index])
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        total += loss.item()
    scheduler.step()
    test_accuracy = accuracy(model, test_x, test_y)
    print(f"{epoch}: loss {total / math.ceil(len(train_x) / batch):.4f}, test accuracy {test_accuracy:.3f}")
