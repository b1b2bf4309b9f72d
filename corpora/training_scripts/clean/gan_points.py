"""A GAN on a ring of points, in the manner of the DCGAN tutorial: two optimizers, fakes detached for the critic."""

import math

import torch
import torch.nn as nn

torch.manual_seed(4)
LATENT, BATCH = 8, 64


def real_points(n):
    angle = 2 * math.pi * torch.rand(n)
    return torch.stack((angle.cos(), angle.sin()), dim=1) + 0.05 * torch.randn(n, 2)


def weights_init(m):
    if isinstance(m, nn.Linear):
        nn.init.xavier_uniform_(m.weight)
        nn.init.zeros_(m.bias)


netG = nn.Sequential(nn.Linear(LATENT, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 2))
netD = nn.Sequential(nn.Linear(2, 32), nn.LeakyReLU(0.2), nn.Linear(32, 32), nn.LeakyReLU(0.2), nn.Linear(32, 1))
netG.apply(weights_init)
netD.apply(weights_init)

criterion = nn.BCEWithLogitsLoss()
fixed_noise = torch.randn(16, LATENT)
optimizerD = torch.optim.Adam(netD.parameters(), lr=2e-3, betas=(0.5, 0.999))
optimizerG = torch.optim.Adam(netG.parameters(), lr=1e-3, betas=(0.5, 0.999))

for i in range(60):
    # Update D: maximise log(D(x)) + log(1 - D(G(z)))
    netD.zero_grad()
    real = real_points(BATCH)
    label = torch.full((BATCH,), 1.0)
    output = netD(real).view(-1)
    errD_real = criterion(output, label)
    errD_real.backward()
    D_x = torch.sigmoid(output).mean().item()

    noise = torch.randn(BATCH, LATENT)
    fake = netG(noise)
    label.fill_(0.0)
    output = netD(fake.detach()).view(-1)
    errD_fake = criterion(output, label)
    errD_fake.backward()
    optimizerD.step()

    # Update G: maximise log(D(G(z)))
    netG.zero_grad()
    label.fill_(1.0)
    output = netD(fake).view(-1)
    errG = criterion(output, label)
    errG.backward()
    optimizerG.step()

    if i % 20 == 0:
        print(f"[{i}] D {errD_real.item() + errD_fake.item():.4f} G {errG.item():.4f} D(x) {D_x:.4f}")

with torch.no_grad():
    print("radius of fakes", netG(fixed_noise).norm(dim=1).mean().item())
