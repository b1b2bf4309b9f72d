"""Classification: binary losses of logits (element-wise), and losses of a row of classes."""

from __future__ import annotations

from functools import partial

import torch
from torch import Generator, Tensor
from torch.nn import functional as F

from losses_at_work.peers import kornia, monai, smp, torchs, torchvision_focal
from losses_at_work.subject import (
    ELEMENTWISE_CELLS,
    Subject,
    binary_image,
    image_of_classes,
    logits_and_labels,
    normal,
    rows_of,
    uniform,
)


def _bce(z: Tensor, t: Tensor) -> Tensor:
    return F.softplus(z) - z * t


def _cross_entropy(z: Tensor, y: Tensor) -> Tensor:
    return (z.logsumexp(1) - z.gather(1, y.unsqueeze(1)).squeeze(1)).mean()


def _soft(z: Tensor, t: Tensor) -> Tensor:
    return -(t * z.log_softmax(1)).sum(1).mean()


def _smoothed(z: Tensor, y: Tensor) -> Tensor:
    logs = z.log_softmax(1)
    return (-0.9 * logs.gather(1, y.unsqueeze(1)).squeeze(1) - 0.1 * logs.mean(1)).mean()


def _weighted(z: Tensor, y: Tensor) -> Tensor:
    w = _class_weights(z)[y]
    return (w * (z.logsumexp(1) - z.gather(1, y.unsqueeze(1)).squeeze(1))).sum() / w.sum()


def _ignored(z: Tensor, y: Tensor) -> Tensor:
    rows = z.logsumexp(1) - z.gather(1, y.clamp_min(0).unsqueeze(1)).squeeze(1)
    return torch.where(y >= 0, rows, 0).sum() / (y >= 0).sum()


def _softmax_focal(z: Tensor, y: Tensor) -> Tensor:
    log = z.log_softmax(1).gather(1, y.unsqueeze(1)).squeeze(1)
    return -((1 - log.exp()) ** 2 * log).mean()


def _class_weights(z: Tensor) -> Tensor:
    return torch.linspace(0.5, 2.0, z.shape[1], dtype=z.dtype)


def _distributions(generator: Generator, size: int) -> list[Tensor]:
    rows = size // 1_000
    return [normal(generator, rows, 1_000), uniform(generator, rows, 1_000).softmax(1)]


def _with_ignored(generator: Generator, size: int) -> list[Tensor]:
    logits, y = rows_of(1_000)(generator, size)
    return [logits, torch.where(torch.rand(y.shape, generator=generator) < 0.3, -100, y)]


def _torchs_weighted(z: Tensor, y: Tensor) -> Tensor:
    return F.cross_entropy(z, y, _class_weights(z))


def cross_entropy_of(count: int) -> Subject:
    """Of rows of so many classes."""
    return Subject(
        f"cross entropy, {count:,} classes",
        "row-wise",
        lambda losses: losses.CrossEntropyLoss(),
        rows_of(count),
        _cross_entropy,
        {"F": torchs(F.cross_entropy)},
    )


SUBJECTS = [
    Subject(
        "BCE with logits",
        "element-wise",
        lambda losses: losses.BCEWithLogitsLoss(),
        logits_and_labels,
        _bce,
        {"F": torchs(F.binary_cross_entropy_with_logits)},
        cells=ELEMENTWISE_CELLS,
    ),
    cross_entropy_of(8),
    cross_entropy_of(1_000),
    cross_entropy_of(32_768),
    Subject(
        "cross entropy, image of 8 classes",
        "row-wise",
        lambda losses: losses.CrossEntropyLoss(),
        image_of_classes,
        lambda z, y: _cross_entropy(z.flatten(2), y.flatten(1)),
        {"F": torchs(F.cross_entropy)},
    ),
    Subject(
        "cross entropy, class weights",
        "row-wise",
        lambda losses: losses.CrossEntropyLoss(torch.linspace(0.5, 2.0, 1_000)),
        rows_of(1_000),
        _weighted,
        {"F": torchs(_torchs_weighted)},
        sizes=(1_000_000,),
        cells=(),
    ),
    Subject(
        "cross entropy, 30 % ignored",
        "row-wise",
        lambda losses: losses.CrossEntropyLoss(),
        _with_ignored,
        _ignored,
        {"F": torchs(F.cross_entropy)},
        sizes=(1_000_000,),
        cells=(),
    ),
    Subject(
        "cross entropy, smoothed",
        "row-wise",
        lambda losses: losses.CrossEntropyLoss(label_smoothing=0.1),
        rows_of(1_000),
        _smoothed,
        {"F": torchs(partial(F.cross_entropy, label_smoothing=0.1))},
        sizes=(1_000_000,),
        cells=(),
    ),
    Subject(
        "cross entropy, soft targets",
        "row-wise",
        lambda losses: losses.CrossEntropyLoss(),
        _distributions,
        _soft,
        {"F": torchs(F.cross_entropy)},
        sizes=(1_000_000,),
        cells=(),
    ),
    Subject(
        "focal, binary",
        "element-wise",
        lambda losses: losses.BinaryFocalLoss(alpha=0.25, gamma=2.0),
        binary_image,
        partial(torchvision_focal, reduction="none"),
        {
            "torchvision": torchs(torchvision_focal),
            "smp": smp(lambda m: lambda z, t, reduction: m.FocalLoss("binary", 0.25, 2.0, reduction=reduction)(z, t)),
            "MONAI": monai(lambda m: lambda z, t, reduction: m.FocalLoss(alpha=0.25, reduction=reduction)(z, t)),
            "kornia": kornia(lambda k: partial(k.binary_focal_loss_with_logits, alpha=0.25, gamma=2.0)),
        },
        cells=ELEMENTWISE_CELLS,
    ),
    Subject(
        "focal, softmax of 8 classes",
        "row-wise",
        lambda losses: losses.FocalLoss(gamma=2.0),
        rows_of(8),
        _softmax_focal,
        {
            "MONAI": monai(
                lambda m: lambda z, y: m.FocalLoss(to_onehot_y=True, use_softmax=True)(z, y.unsqueeze(1)) * z.shape[1]
            ),
            "kornia": kornia(lambda k: lambda z, y: k.focal_loss(z, y, None, 2.0, "mean") * z.shape[1]),
        },
    ),
]
