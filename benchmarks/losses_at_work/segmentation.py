"""Segmentation: functions of three sums over the whole batch, and the Lovasz extensions, which sort.

Peers are set so that they compute the same: over the batch (``batch=True`` of MONAI), without smoothing. Only kornia's
Dice and Tversky can't be: they are those of each image, averaged.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Generator, Tensor
from torch.nn import functional as F

from losses_at_work.peers import kornia, monai, smp
from losses_at_work.subject import Subject, binary_image, image_of_classes, normal, yes_or_no

IGNORED = 255


def _one_image(generator: Generator, size: int) -> list[Tensor]:
    """Logits and labels of one image [1, 1, H, 1000]: kornia's Lovasz hinge is one of an image, smp's of the batch."""
    shape = (1, 1, size // 1_000, 1_000)
    return [normal(generator, *shape), yes_or_no(generator, *shape)]


def _with_ignored(generator: Generator, size: int) -> list[Tensor]:
    z, t = binary_image(generator, size)
    return [z, torch.where(torch.rand(t.shape, generator=generator) < 0.3, IGNORED, t)]


def _sums(p: Tensor, t: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    axes = [0, *range(2, p.ndim)]
    return (p * t).sum(axes), p.sum(axes), t.sum(axes)


def _one_hot(z: Tensor, y: Tensor) -> Tensor:
    return F.one_hot(y, z.shape[1]).movedim(-1, 1).to(z.dtype)


def _tversky(p: Tensor, t: Tensor, a: float, b: float) -> Tensor:
    both, predicted, true = _sums(p, t)
    return both / (both + a * (predicted - both) + b * (true - both))


def _dice(p: Tensor, t: Tensor) -> Tensor:
    return 1 - _tversky(p, t, 0.5, 0.5).mean()


def _dice_ignored(z: Tensor, t: Tensor) -> Tensor:
    counts = t != IGNORED
    return _dice(z.sigmoid() * counts, t * counts)


def _lovasz(errors: Tensor, truth: Tensor) -> Tensor:
    """Berman et al. 2018, arXiv:1705.08790, algorithm 1."""
    sorted_errors, order = errors.sort(descending=True)
    truth = truth[order]
    union = truth.sum() + (1 - truth).cumsum(0)
    jaccard = 1 - (truth.sum() - truth.cumsum(0)) / union
    weights = torch.cat([jaccard[:1], jaccard[1:] - jaccard[:-1]])
    return torch.dot(F.relu(sorted_errors), weights)


def _lovasz_hinge(z: Tensor, t: Tensor) -> Tensor:
    return _lovasz((1 - z * (2 * t - 1)).flatten(), t.flatten())


def _lovasz_softmax(z: Tensor, y: Tensor) -> Tensor:
    p, t = z.softmax(1), _one_hot(z, y)
    each = [_lovasz((t[:, c] - p[:, c]).abs().flatten(), t[:, c].flatten()) for c in range(z.shape[1])]
    return torch.stack(each).mean()


def _combo(z: Tensor, t: Tensor) -> Tensor:
    """Half weighted cross entropy, half Dice: Taghanaki et al. 2019, arXiv:1805.02798, equation 3."""
    log_p, log_q = F.logsigmoid(z), F.logsigmoid(-z)
    entropy = -(0.5 * t * log_p + 0.5 * (1 - t) * log_q).mean()
    return 0.5 * entropy + 0.5 * _dice(z.sigmoid(), t)


def _with_channel(make: Callable[[Any], Callable[..., Tensor]]) -> Callable[[Any], Callable[..., Tensor]]:
    """MONAI wants the class numbers as [N, 1, *]."""

    def made(module: Any) -> Callable[..., Tensor]:
        loss = make(module)
        return lambda z, y: loss(z, y.unsqueeze(1))

    return made


_EXACT = {"batch": True, "smooth_nr": 0.0, "smooth_dr": 1e-7}
_CLASSES = {"softmax": True, "to_onehot_y": True, **_EXACT}

SUBJECTS = [
    Subject(
        "dice, binary",
        "segmentation",
        lambda losses: losses.DiceLoss("binary"),
        binary_image,
        lambda z, t: _dice(z.sigmoid(), t),
        {
            "smp": smp(lambda m: m.DiceLoss("binary")),
            "MONAI": monai(lambda m: m.DiceLoss(sigmoid=True, **_EXACT)),
        },
        passes=2,
    ),
    Subject(
        "dice, 8 classes",
        "segmentation",
        lambda losses: losses.DiceLoss("multiclass"),
        image_of_classes,
        lambda z, y: _dice(z.softmax(1), _one_hot(z, y)),
        {
            "smp": smp(lambda m: m.DiceLoss("multiclass")),
            "MONAI": monai(_with_channel(lambda m: m.DiceLoss(**_CLASSES))),
            "kornia": kornia(lambda k: lambda z, y: k.dice_loss(z, y, average="macro")),
        },
        passes=2,
    ),
    Subject(
        "dice, binary, 30 % ignored",
        "segmentation",
        lambda losses: losses.DiceLoss("binary", ignore_index=IGNORED),
        _with_ignored,
        _dice_ignored,
        {"smp": smp(lambda m: m.DiceLoss("binary", ignore_index=IGNORED))},
        passes=2,
        sizes=(1_000_000,),
        cells=(),
    ),
    Subject(
        "BCE-dice",
        "segmentation",
        lambda losses: losses.BCEDiceLoss(smooth=0.0),
        binary_image,
        lambda z, t: (F.softplus(z) - z * t).mean() + _dice(z.sigmoid(), t),
        {"MONAI": monai(lambda m: m.DiceCELoss(sigmoid=True, **_EXACT))},
        passes=2,
    ),
    Subject(
        "jaccard, binary",
        "segmentation",
        lambda losses: losses.JaccardLoss("binary"),
        binary_image,
        lambda z, t: 1 - _tversky(z.sigmoid(), t, 1.0, 1.0).mean(),
        {
            "smp": smp(lambda m: m.JaccardLoss("binary")),
            "MONAI": monai(lambda m: m.DiceLoss(sigmoid=True, jaccard=True, **_EXACT)),
        },
        passes=2,
    ),
    Subject(
        "tversky, 8 classes",
        "segmentation",
        lambda losses: losses.TverskyLoss("multiclass", alpha=0.3, beta=0.7),
        image_of_classes,
        lambda z, y: 1 - _tversky(z.softmax(1), _one_hot(z, y), 0.3, 0.7).mean(),
        {
            "smp": smp(lambda m: m.TverskyLoss("multiclass", alpha=0.3, beta=0.7)),
            "MONAI": monai(_with_channel(lambda m: m.TverskyLoss(alpha=0.3, beta=0.7, **_CLASSES))),
            "kornia": kornia(lambda k: lambda z, y: k.tversky_loss(z, y, 0.3, 0.7)),
        },
        passes=2,
    ),
    Subject(
        "focal tversky, binary",
        "segmentation",
        lambda losses: losses.FocalTverskyLoss("binary", alpha=0.3, beta=0.7, gamma=4 / 3),
        binary_image,
        lambda z, t: ((1 - _tversky(z.sigmoid(), t, 0.3, 0.7)) ** 0.75).mean(),
        {"smp": smp(lambda m: m.TverskyLoss("binary", alpha=0.3, beta=0.7, gamma=0.75))},
        passes=2,
    ),
    Subject(
        "lovasz hinge",
        "segmentation",
        lambda losses: losses.LovaszHingeLoss(),
        _one_image,
        _lovasz_hinge,
        {
            "smp": smp(lambda m: m.LovaszLoss("binary")),
            "kornia": kornia(lambda k: lambda z, t: k.lovasz_hinge_loss(z, t.squeeze(1))),
        },
        passes=0,
        sizes=(1_000_000,),
    ),
    Subject(
        "lovasz softmax, 8 classes",
        "segmentation",
        lambda losses: losses.LovaszSoftmaxLoss(),
        image_of_classes,
        _lovasz_softmax,
        {
            "smp": smp(lambda m: m.LovaszLoss("multiclass")),
            "kornia": kornia(lambda k: k.lovasz_softmax_loss),
        },
        passes=0,
        sizes=(1_000_000,),
    ),
    Subject(
        "combo",
        "segmentation",
        lambda losses: losses.ComboLoss(smooth=0.0),
        binary_image,
        _combo,
        passes=2,
    ),
]
