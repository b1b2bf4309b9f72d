"""A convolutional classifier under bfloat16 autocast: the loss in float32, no scaler needed; a trainer class."""

import torch
import torch.nn as nn
import torch.nn.functional as F


class ConvNet(nn.Module):
    def __init__(self, classes):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(2, 8, 3, padding=1), nn.GroupNorm(2, 8), nn.SiLU(), nn.MaxPool2d(2),
            nn.Conv2d(8, 16, 3, padding=1), nn.GroupNorm(4, 16), nn.SiLU(), nn.AdaptiveAvgPool2d(1),
        )  # fmt: skip
        self.classifier = nn.Linear(16, classes)

    def forward(self, x):
        return self.classifier(self.features(x).flatten(1))


class Trainer:
    def __init__(self, model, optimizer, scheduler):
        self.model, self.optimizer, self.scheduler = model, optimizer, scheduler
        self.step_number = 0

    def loss(self, images, labels):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            logits = self.model(images)
        return F.cross_entropy(logits.float(), labels)

    def train_epoch(self, batches):
        self.model.train()
        for images, labels in batches:
            loss = self.loss(images, labels)
            self.optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(self.model.parameters(), 2.0)
            self.optimizer.step()
            self.scheduler.step()
            self.step_number += 1
        return loss.item()

    @torch.inference_mode()
    def evaluate(self, images, labels):
        self.model.eval()
        return (self.model(images).argmax(-1) == labels).float().mean().item()


def main():
    torch.manual_seed(19)
    labels = torch.arange(192) % 3
    images = 0.5 * torch.randn(192, 2, 8, 8)
    images[labels == 0, 0] += 0.8
    images[labels == 1, 1] += 0.8
    shuffled = torch.randperm(192)
    images, labels = images[shuffled], labels[shuffled]
    batches = [(images[i : i + 32], labels[i : i + 32]) for i in range(0, 160, 32)]

    model = ConvNet(3)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=2e-2, total_steps=25)
    trainer = Trainer(model, optimizer, scheduler)
    for epoch in range(5):
        loss = trainer.train_epoch(batches)
        print(f"epoch {epoch}: loss {loss:.4f}, accuracy {trainer.evaluate(images[160:], labels[160:]):.3f}")


if __name__ == "__main__":
    main()
