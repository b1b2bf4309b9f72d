"""A small CNN on synthetic digits, in the manner of the MNIST example: train(), test(), a scheduler per epoch."""

import torch
import torch.nn.functional as F
from torch import nn, optim
from torch.optim.lr_scheduler import StepLR


def make_images(n, generator):
    labels = torch.randint(0, 4, (n,), generator=generator)
    images = 0.3 * torch.randn(n, 1, 12, 12, generator=generator)
    for i, label in enumerate(labels.tolist()):
        row, column = divmod(label, 2)
        images[i, 0, row * 6 : row * 6 + 6, column * 6 : column * 6 + 6] += 1.0
    return images, labels


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 8, 3)
        self.conv2 = nn.Conv2d(8, 16, 3)
        self.dropout = nn.Dropout(0.25)
        self.fc1 = nn.Linear(16 * 4 * 4, 32)
        self.fc2 = nn.Linear(32, 4)

    def forward(self, x):
        x = F.relu(self.conv1(x))
        x = F.relu(self.conv2(x))
        x = F.max_pool2d(x, 2)
        x = self.dropout(x)
        x = torch.flatten(x, 1)
        x = F.relu(self.fc1(x))
        x = self.fc2(x)
        return F.log_softmax(x, dim=1)


def train(model, batches, optimizer, epoch):
    model.train()
    for batch_idx, (data, target) in enumerate(batches):
        optimizer.zero_grad()
        output = model(data)
        loss = F.nll_loss(output, target)
        loss.backward()
        optimizer.step()
        if batch_idx % 4 == 0:
            print(f"epoch {epoch} [{batch_idx}/{len(batches)}] loss {loss.item():.4f}")


def test(model, images, labels):
    model.eval()
    with torch.no_grad():
        output = model(images)
        loss = F.nll_loss(output, labels, reduction="sum").item() / len(images)
        correct = (output.argmax(1) == labels).sum().item()
    print(f"test: loss {loss:.4f}, accuracy {correct}/{len(images)}")


def main():
    torch.manual_seed(2)
    generator = torch.Generator().manual_seed(2)
    images, labels = make_images(256, generator)
    test_images, test_labels = make_images(64, generator)
    batches = list(zip(images.split(32), labels.split(32), strict=True))

    model = Net()
    optimizer = optim.Adadelta(model.parameters(), lr=1.0)
    scheduler = StepLR(optimizer, step_size=1, gamma=0.7)
    for epoch in range(1, 6):
        train(model, batches, optimizer, epoch)
        test(model, test_images, test_labels)
        scheduler.step()


if __name__ == "__main__":
    main()
