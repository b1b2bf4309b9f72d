"""A denoising diffusion model on points of a spiral: noise predicted at random times, ancestral sampling."""

import torch
from torch import nn

torch.manual_seed(41)
T = 30
betas = torch.linspace(1e-4, 0.2, T)
alphas = 1.0 - betas
alphas_cumprod = torch.cumprod(alphas, dim=0)


class Denoiser(nn.Module):
    def __init__(self, width=48):
        super().__init__()
        self.time = nn.Embedding(T, width)
        self.inlet = nn.Linear(2, width)
        self.body = nn.Sequential(nn.SiLU(), nn.Linear(width, width), nn.SiLU(), nn.Linear(width, 2))

    def forward(self, x, t):
        return self.body(self.inlet(x) + self.time(t))


def spiral(n):
    radius = torch.rand(n).sqrt()
    angle = 6.28 * radius
    return torch.stack((radius * angle.cos(), radius * angle.sin()), dim=1)


@torch.no_grad()
def sample(model, n):
    x = torch.randn(n, 2)
    for t in reversed(range(T)):
        noise = model(x, torch.full((n,), t))
        x = (x - betas[t] / (1 - alphas_cumprod[t]).sqrt() * noise) / alphas[t].sqrt()
        if t > 0:
            x = x + betas[t].sqrt() * torch.randn_like(x)
    return x


model = Denoiser()
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
for step in range(60):
    x0 = spiral(128)
    t = torch.randint(T, (128,))
    noise = torch.randn_like(x0)
    a = alphas_cumprod[t].unsqueeze(1)
    noisy = a.sqrt() * x0 + (1 - a).sqrt() * noise
    loss = nn.functional.mse_loss(model(noisy, t), noise)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 20 == 0:
        print(f"step {step}: loss {loss.item():.4f}, samples' spread {sample(model, 64).std().item():.3f}")
