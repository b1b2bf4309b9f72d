"""What a critic's step costs with the penalty taken three ways: in one thread's time, and in operations."""

import statistics
import time

import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

import gradwright as gw


def looped(critic, real, fake):
    """As it is first written: one backward for each sample."""
    share = torch.rand(len(real), 1)
    between = (share * real + (1 - share) * fake).requires_grad_()
    scores = critic(between)
    penalty = 0
    for j in range(len(scores)):  # gradwright: ignore[GW302] what the others are compared with
        gradient = torch.autograd.grad(scores[j, 0], between, create_graph=True)[0][j]
        penalty = penalty + 10 * (gradient.norm() - 1) ** 2
    return penalty / len(scores)


def summed(critic, real, fake):
    """As it is usually published: one backward of all scores' sum, which nothing here keeps from mixing samples."""
    share = torch.rand(len(real), 1)
    between = (share * real + (1 - share) * fake).requires_grad_()
    scores = critic(between)
    (gradients,) = torch.autograd.grad(scores, between, torch.ones_like(scores), create_graph=True)
    return 10 * ((gradients.norm(dim=1) - 1) ** 2).mean()


OURS = "gw.penalties.gradient_penalty"
WAYS = {"a loop over samples": looped, "sum trick by hand": summed, OURS: gw.penalties.gradient_penalty}


class Operations(TorchDispatchMode):
    """Counts what reaches torch's kernels."""

    count = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.count += 1
        return func(*args, **(kwargs or {}))


def compared(real, fake, turns=9):
    """{way: {column: value}}: forward, loss and backward of a critic of the training's size; ratios within a turn."""
    width = 128
    critic = nn.Sequential(
        nn.Linear(64, width), nn.LeakyReLU(0.2), nn.Linear(width, width), nn.LeakyReLU(0.2), nn.Linear(width, 1)
    )
    weights = list(critic.parameters())

    def step(way):
        torch.manual_seed(0)  # the same points for all
        loss = gw.losses.wgan_critic_loss(critic(real), critic(fake)) + WAYS[way](critic, real, fake)
        return torch.autograd.grad(loss, weights)

    wanted = torch.cat([gradient.flatten() for gradient in step("a loop over samples")])
    took = {way: [] for way in WAYS}
    for _ in range(turns):
        for way in WAYS:
            started = time.process_time()
            step(way)
            took[way].append(time.process_time() - started)
    rows = {}
    for way in WAYS:
        with Operations() as operations:
            found = torch.cat([gradient.flatten() for gradient in step(way)])
        rows[way] = {
            "operations": operations.count,
            "times_ours": round(statistics.median(a / b for a, b in zip(took[way], took[OURS])), 2),
            "gradient_differs": f"{float((found - wanted).norm() / wanted.norm()):.0e}",
        }
    return rows
