"""A critic's step of WGAN-GP: the loss of Gulrajani et al. 2017, algorithm 1, on images of 28 x 28.

``usual``: as the public PyTorch versions have it (caogang/wgan-gp, eriklindernoren/PyTorch-GAN): interpolate,
autograd.grad with grad_outputs=ones and create_graph, norm over the flat gradient.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from gradwright.penalties import gradient_penalty
from steps.task import Task


def usual(critic: nn.Module, real: Tensor, fake: Tensor) -> Tensor:
    alpha = torch.rand(len(real), 1, 1, 1, device=real.device)
    between = (alpha * real + (1 - alpha) * fake).requires_grad_(True)
    scores = critic(between)
    (gradients,) = torch.autograd.grad(
        outputs=scores,
        inputs=between,
        grad_outputs=torch.ones_like(scores),
        create_graph=True,
        retain_graph=True,
        only_inputs=True,
    )
    return 10 * ((gradients.view(len(gradients), -1).norm(2, dim=1) - 1) ** 2).mean()


def task(name: str, critic: nn.Module, samples: int, device: torch.device) -> Task:
    torch.manual_seed(0)
    real, fake = (torch.randn(samples, 1, 28, 28, device=device) for _ in range(2))

    def with_penalty(model: nn.Module, penalty: object) -> Tensor:
        assert callable(penalty)
        torch.manual_seed(1)  # the same points between for both
        wasserstein: Tensor = model(fake).mean() - model(real).mean() + penalty(model, real, fake)
        return wasserstein

    ways = {
        "usual": lambda model: with_penalty(model, usual),
        "ours": lambda model: with_penalty(model, gradient_penalty),
    }
    return Task(f"WGAN-GP critic, {name}, B={samples}", critic.to(device), ways, ("ours",))


def perceptron(device: torch.device) -> Task:
    torch.manual_seed(0)
    act = nn.LeakyReLU(0.2)
    critic = nn.Sequential(nn.Flatten(), nn.Linear(784, 512), act, nn.Linear(512, 256), act, nn.Linear(256, 1))
    return task("784-512-256-1", critic, 64, device)


def convolutional(device: torch.device) -> Task:
    torch.manual_seed(0)
    layers: list[nn.Module] = []
    for inputs, outputs in ((1, 64), (64, 128), (128, 256)):
        layers += [nn.Conv2d(inputs, outputs, 5, stride=2, padding=2), nn.ReLU()]
    return task("convolutional", nn.Sequential(*layers, nn.Flatten(), nn.Linear(4096, 1)), 50, device)
