"""A denoising convolutional autoencoder with tied code size and a sparsity term on the code."""

import torch
from torch import nn


class Autoencoder(nn.Module):
    def __init__(self, code=12):
        super().__init__()
        self.encoder = nn.Sequential(
            nn.Conv2d(1, 8, 3, stride=2, padding=1),
            nn.GELU(),
            nn.Conv2d(8, 16, 3, stride=2, padding=1),
            nn.GELU(),
            nn.Flatten(),
            nn.Linear(16 * 2 * 2, code),
        )
        self.expand = nn.Linear(code, 16 * 2 * 2)
        self.decoder = nn.Sequential(
            nn.ConvTranspose2d(16, 8, 4, stride=2, padding=1),
            nn.GELU(),
            nn.ConvTranspose2d(8, 1, 4, stride=2, padding=1),
        )

    def forward(self, x):
        code = self.encoder(x)
        hidden = self.expand(code).view(-1, 16, 2, 2)
        return self.decoder(hidden), code


def blobs(n):
    grid = torch.linspace(-1, 1, 8)
    centers = 1.2 * torch.rand(n, 2) - 0.6
    distance = (grid[None, :, None] - centers[:, :1, None]) ** 2 + (grid[None, None, :] - centers[:, 1:, None]) ** 2
    return torch.exp(-4 * distance).unsqueeze(1)


torch.manual_seed(7)
clean = blobs(256)
model = Autoencoder()
optimizer = torch.optim.AdamW(model.parameters(), lr=4e-3)

history = []
for epoch in range(10):
    permutation = torch.randperm(clean.size(0))
    for index in permutation.split(64):
        batch = clean[index]
        noisy = batch + 0.2 * torch.randn_like(batch)
        reconstruction, code = model(noisy)
        reconstruction_loss = nn.functional.mse_loss(reconstruction, batch)
        sparsity = code.abs().mean()
        loss = reconstruction_loss + 1e-3 * sparsity

        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        history.append(loss.item())
    print(f"epoch {epoch}: {sum(history[-4:]) / 4:.5f}")
