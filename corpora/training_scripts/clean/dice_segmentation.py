"""Segmentation of discs with a small U-Net: Dice by hand (soft, smoothed) plus binary cross entropy."""

import torch
from torch import nn


class DoubleConv(nn.Sequential):
    def __init__(self, inputs, outputs):
        super().__init__(
            nn.Conv2d(inputs, outputs, 3, padding=1),
            nn.BatchNorm2d(outputs),
            nn.ReLU(inplace=True),
            nn.Conv2d(outputs, outputs, 3, padding=1),
            nn.ReLU(inplace=True),
        )


class UNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.down1, self.down2 = DoubleConv(1, 8), DoubleConv(8, 16)
        self.pool = nn.MaxPool2d(2)
        self.up = nn.ConvTranspose2d(16, 8, 2, stride=2)
        self.merge = DoubleConv(16, 8)
        self.out = nn.Conv2d(8, 1, 1)

    def forward(self, x):
        skip = self.down1(x)
        deep = self.down2(self.pool(skip))
        merged = torch.cat([self.up(deep), skip], dim=1)
        return self.out(self.merge(merged))


def dice_loss(logits, masks, smooth=1.0):
    probabilities = torch.sigmoid(logits).flatten(1)
    masks = masks.flatten(1)
    intersection = (probabilities * masks).sum(dim=1)
    union = probabilities.sum(dim=1) + masks.sum(dim=1)
    return 1 - ((2 * intersection + smooth) / (union + smooth)).mean()


def discs(n, size=16):
    rows, columns = torch.meshgrid(torch.arange(size), torch.arange(size), indexing="ij")
    center = torch.randint(4, 12, (n, 2, 1, 1))
    radius = torch.randint(2, 5, (n, 1, 1))
    masks = ((rows - center[:, 0]) ** 2 + (columns - center[:, 1]) ** 2 <= radius**2).float()
    return (masks + 0.4 * torch.randn(n, size, size)).unsqueeze(1), masks.unsqueeze(1)


torch.manual_seed(38)
images, masks = discs(64)
net = UNet()
bce = nn.BCEWithLogitsLoss()
optimizer = torch.optim.Adam(net.parameters(), lr=5e-3)

for epoch in range(5):
    net.train()
    for batch_images, batch_masks in zip(images.split(16), masks.split(16), strict=True):
        logits = net(batch_images)
        loss = bce(logits, batch_masks) + dice_loss(logits, batch_masks)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    net.eval()
    with torch.no_grad():
        dice = 1 - dice_loss(net(images), masks).item()
    print(f"epoch {epoch}: loss {loss.item():.4f}, dice {dice:.3f}")
