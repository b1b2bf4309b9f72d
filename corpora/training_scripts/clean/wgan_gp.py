"""A Wasserstein GAN with gradient penalty: five critic steps for one of the generator, a second derivative."""

import torch
from torch import autograd, nn


class Generator(nn.Module):
    def __init__(self, latent=4, width=24):
        super().__init__()
        self.net = nn.Sequential(
            nn.Linear(latent, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 2)
        )

    def forward(self, z):
        return self.net(z)


class Critic(nn.Module):
    def __init__(self, width=24):
        super().__init__()
        self.net = nn.Sequential(
            nn.Linear(2, width), nn.Softplus(), nn.Linear(width, width), nn.Softplus(), nn.Linear(width, 1)
        )

    def forward(self, x):
        return self.net(x)


def gradient_penalty(critic, real, fake):
    alpha = torch.rand(real.size(0), 1)
    interpolates = (alpha * real + (1 - alpha) * fake).requires_grad_(True)
    scores = critic(interpolates)
    (gradients,) = autograd.grad(
        outputs=scores, inputs=interpolates, grad_outputs=torch.ones_like(scores), create_graph=True
    )
    norms = gradients.norm(2, dim=1)
    return ((norms - 1) ** 2).mean()


def sample_real(n):
    centers = torch.tensor([[1.0, 1.0], [-1.0, -1.0], [1.0, -1.0], [-1.0, 1.0]])
    return centers[torch.randint(4, (n,))] + 0.1 * torch.randn(n, 2)


def main():
    torch.manual_seed(5)
    generator, critic = Generator(), Critic()
    opt_g = torch.optim.Adam(generator.parameters(), lr=1e-3, betas=(0.0, 0.9))
    opt_c = torch.optim.Adam(critic.parameters(), lr=1e-3, betas=(0.0, 0.9))
    batch, lambda_gp = 64, 10.0

    for iteration in range(15):
        for p in critic.parameters():
            p.requires_grad_(True)
        for _ in range(5):
            real = sample_real(batch)
            with torch.no_grad():
                fake = generator(torch.randn(batch, 4))
            critic_loss = critic(fake).mean() - critic(real).mean()
            critic_loss = critic_loss + lambda_gp * gradient_penalty(critic, real, fake)
            opt_c.zero_grad()
            critic_loss.backward()
            opt_c.step()

        for p in critic.parameters():
            p.requires_grad_(False)
        generator_loss = -critic(generator(torch.randn(batch, 4))).mean()
        opt_g.zero_grad()
        generator_loss.backward()
        opt_g.step()
        if iteration % 5 == 0:
            print(f"{iteration}: critic {critic_loss.item():.4f}, generator {generator_loss.item():.4f}")


if __name__ == "__main__":
    main()
