"""Losses of distances: triplets, and every query against every key."""

from __future__ import annotations

import torch
from torch import Generator, Tensor
from torch.nn import functional as F

from losses_at_work.peers import torchs
from losses_at_work.subject import Subject, normal


def _triplets(generator: Generator, size: int) -> list[Tensor]:
    """Three times [N, 128]."""
    return [normal(generator, size // 384, 128) for _ in range(3)]


def _queries_and_keys(generator: Generator, size: int) -> list[Tensor]:
    """Twice [N, 128], with N² logits between them."""
    count = round(size**0.5)
    return [normal(generator, count, 128), normal(generator, count, 128)]


def _triplet(a: Tensor, p: Tensor, n: Tensor) -> Tensor:
    near = ((a - p + 1e-6) ** 2).sum(1).sqrt()
    far = ((a - n + 1e-6) ** 2).sum(1).sqrt()
    return torch.relu(near - far + 1.0).mean()


def _info_nce(q: Tensor, k: Tensor) -> Tensor:
    logits = F.normalize(q, dim=1) @ F.normalize(k, dim=1).T / 0.1
    return F.cross_entropy(logits, torch.arange(len(q)))


SUBJECTS = [
    Subject(
        "triplet, margin 1",
        "other",
        lambda losses: losses.TripletMarginLoss(),
        _triplets,
        _triplet,
        {"F": torchs(F.triplet_margin_loss)},
        wanted=3,
    ),
    Subject(
        "InfoNCE, 1,000 of 128",
        "other",
        lambda losses: losses.InfoNCELoss(temperature=0.1),
        _queries_and_keys,
        _info_nce,
        wanted=2,
        passes=0,
        sizes=(1_000_000,),
    ),
]
