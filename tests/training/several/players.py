"""A GAN's two players: their updates from one window by two accumulators, and on the full batch by hand."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from gradwright.training import GradientAccumulator

LATENT = 3
Batch = tuple[Tensor, Tensor]


def players() -> tuple[nn.Sequential, nn.Sequential]:
    torch.manual_seed(0)
    maker = nn.Sequential(nn.Linear(LATENT, 8), nn.Tanh(), nn.Linear(8, 2))
    judge = nn.Sequential(nn.Linear(2, 8), nn.LeakyReLU(0.2), nn.Linear(8, 1))
    return maker.double(), judge.double()


def judged(scores: Tensor, real: bool) -> Tensor:
    return F.binary_cross_entropy_with_logits(scores, torch.full_like(scores, float(real)), reduction="sum")


def full_step(maker: nn.Module, judge: nn.Module, points: Tensor, noise: Tensor) -> None:
    """The two updates of a GAN's step, on the full batch."""
    for_judge, for_maker = (torch.optim.SGD(one.parameters(), 0.3) for one in (judge, maker))
    for_judge.zero_grad()
    (judged(judge(points), True) / len(points) + judged(judge(maker(noise).detach()), False) / len(noise)).backward()
    for_judge.step()
    for_maker.zero_grad()
    (judged(judge(maker(noise)), True) / len(noise)).backward()
    for_maker.step()


def play(maker: nn.Module, judge: nn.Module, batches: Sequence[Batch]) -> None:
    """The two updates, from one window of micro-batches."""
    judging, making = (
        GradientAccumulator(
            one, torch.optim.SGD(one.parameters(), 0.3), accumulation_steps=len(batches), normalize="samples"
        )
        for one in (judge, maker)
    )
    for window in judging.windows(batches):
        for points, noise in window:
            fake = maker(noise).detach()
            losses = {"real": judged(judge(points), True), "fake": judged(judge(fake), False)}
            judging.backward(losses, reduction="sum")
        assert judging.step().stepped
        for _, noise in making.window(window.batches):
            making.backward(judged(judge(maker(noise)), True), reduction="sum")
        assert making.step().stepped
