"""Losses of overlap, continued: as segmentation_models_pytorch and the papers have them."""

from functools import partial

import torch
from tests.losses.case import Case, classes, drawn, normal, yes_or_no
from torch import Tensor
from torch.nn import functional as F

from gradwright.losses.segmentation.bce_dice import bce_dice_loss
from gradwright.losses.segmentation.combo import combo_loss
from gradwright.losses.segmentation.focal_tversky import focal_tversky_loss
from gradwright.losses.segmentation.jaccard import jaccard_loss
from gradwright.losses.segmentation.lovasz_hinge import lovasz_hinge_loss
from gradwright.losses.segmentation.lovasz_softmax import lovasz_softmax_loss
from gradwright.losses.segmentation.tversky import tversky_loss


def jaccard(p: Tensor, t: Tensor, smooth: float = 0.0, is_log: bool = False) -> Tensor:
    """smp.losses.JaccardLoss, of probabilities and labels [N, C, *]."""
    axes = [axis for axis in range(p.ndim) if axis != 1]
    intersection, cardinality = (p * t).sum(axes), (p + t).sum(axes)
    score = (intersection + smooth) / (cardinality - intersection + smooth).clamp_min(1e-7)
    losses = -score.clamp_min(1e-7).log() if is_log else 1 - score
    return (losses * (t.sum(axes) > 0)).mean()


def tversky(p: Tensor, t: Tensor, alpha: float, beta: float, smooth: float = 0.0) -> Tensor:
    """1 - smp.losses.soft_tversky_score for each class."""
    axes = [axis for axis in range(p.ndim) if axis != 1]
    hit, extra, missed = (p * t).sum(axes), (p * (1 - t)).sum(axes), ((1 - p) * t).sum(axes)
    losses = 1 - (hit + smooth) / (hit + alpha * extra + beta * missed + smooth).clamp_min(1e-7)
    return losses * (t.sum(axes) > 0)


def bce_dice(z: Tensor, t: Tensor, smooth: float = 1.0) -> Tensor:
    """Kaggle's DiceBCELoss, of one class."""
    p = z.sigmoid()
    dice = (2 * (p * t).sum() + smooth) / (p.sum() + t.sum() + smooth)
    return F.binary_cross_entropy_with_logits(z, t) + 1 - dice


def ce_dice(z: Tensor, y: Tensor, counts: Tensor) -> Tensor:
    """MONAI's DiceCELoss of class numbers, over the batch, of the rows that count."""
    p, t = z.softmax(1) * counts[:, None], one_hot(y, z) * counts[:, None]
    axes = [0, *range(2, z.ndim)]
    dice = 2 * (p * t).sum(axes) / (p + t).sum(axes)
    entropy = F.cross_entropy(z, y, reduction="none")[counts].mean()
    return 0.5 * entropy + 2.0 * ((1 - dice) * (t.sum(axes) > 0)).mean()


def combo(p: Tensor, t: Tensor, alpha: float, beta: float, smooth: float = 1.0) -> Tensor:
    """Taghanaki et al., equation 3, with 1 - dice for - dice, for each class, and their mean."""
    axes = [axis for axis in range(p.ndim) if axis != 1]
    dice = (2 * (p * t).sum(axes) + smooth) / (p.sum(axes) + t.sum(axes) + smooth)
    entropy = -(beta * t * p.log() + (1 - beta) * (1 - t) * (1 - p).log()).mean(axes)
    return (alpha * entropy + (1 - alpha) * (1 - dice)).mean()


def one_hot(y: Tensor, like: Tensor) -> Tensor:
    return F.one_hot(y, like.shape[1]).movedim(-1, 1).to(like.dtype)


def lovasz(errors: Tensor, is_true: Tensor) -> Tensor:
    """Berman et al., algorithm 1, as their code has it: of the errors and labels of one class."""
    order = errors.detach().sort(descending=True, stable=True).indices
    label = is_true[order].to(errors.dtype)
    jaccard = 1 - (label.sum() - label.cumsum(0)) / (label.sum() + (1 - label).cumsum(0))
    slopes = torch.cat([jaccard[:1], jaccard[1:] - jaccard[:-1]])
    return torch.dot(errors.relu()[order], slopes)


def lovasz_hinge(z: Tensor, t: Tensor) -> Tensor:
    sign = 2 * t.flatten() - 1
    return lovasz(1 - z.flatten() * sign, sign > 0)


def lovasz_softmax(z: Tensor, y: Tensor, is_all: bool = False, counts: Tensor | None = None) -> Tensor:
    p = z.softmax(1).transpose(0, 1).flatten(1)
    y, counts = y.flatten(), torch.ones_like(y, dtype=torch.bool).flatten() if counts is None else counts.flatten()
    numbers = [c for c in range(len(p)) if is_all or ((y == c) & counts).any()]
    losses = [lovasz(((y == c).to(p.dtype) - p[c])[counts].abs(), (y == c)[counts]) for c in numbers]
    return torch.stack(losses).mean()


def of_images(loss, z: Tensor, y: Tensor) -> Tensor:
    return torch.stack([loss(z[place : place + 1], y[place : place + 1]) for place in range(len(z))])


_BINARY = drawn(normal(2, 1, 5, 6), yes_or_no(2, 1, 5, 6))
_LABELS = drawn(normal(2, 3, 5, 6), yes_or_no(2, 3, 5, 6))
_CLASSES = drawn(normal(2, 4, 5, 6), classes(4, 2, 5, 6))

CASES = [
    Case("jaccard, binary, logarithm", partial(jaccard_loss, log_loss=True),
         lambda z, t: jaccard(z.sigmoid(), t, is_log=True), _BINARY),
    Case("jaccard, multilabel, smooth", partial(jaccard_loss, mode="multilabel", smooth=1.0),
         lambda z, t: jaccard(z.sigmoid(), t, 1.0), _LABELS),
    Case("jaccard, multiclass", partial(jaccard_loss, mode="multiclass"),
         lambda z, y: jaccard(z.softmax(1), one_hot(y, z)), _CLASSES),
    Case("tversky, multiclass, power, masked",
         lambda z, y: tversky_loss(z, y, "multiclass", alpha=0.3, beta=0.8, gamma=1.7, mask=y != 1),
         lambda z, y: tversky(z.softmax(1) * (y != 1)[:, None], one_hot(y, z) * (y != 1)[:, None],
                              0.3, 0.8).mean() ** 1.7, _CLASSES),
    Case("tversky of probabilities, none",
         lambda z, t: tversky_loss(z.sigmoid(), t, "multilabel", False, 0.5, alpha=0.3, beta=0.8, reduction="none"),
         lambda z, t: tversky(z.sigmoid(), t, 0.3, 0.8, 0.5), _LABELS),
    Case("focal tversky, binary", focal_tversky_loss,
         lambda z, t: (tversky(z.sigmoid(), t, 0.3, 0.7) ** 0.75).mean(), _BINARY),
    Case("focal tversky, multiclass, ignored, sum",
         partial(focal_tversky_loss, mode="multiclass", ignore_index=2, gamma=2.0, reduction="sum"),
         lambda z, y: (tversky(z.softmax(1) * (y != 2)[:, None], one_hot(y, z) * (y != 2)[:, None],
                               0.3, 0.7)[[0, 1, 3]] ** 0.5).sum(), _CLASSES),
    Case("bce dice, binary", bce_dice_loss, bce_dice, _BINARY),
    Case("bce dice, multiclass, masked",
         lambda z, y: bce_dice_loss(z, y, "multiclass", smooth=0.0, bce_weight=0.5, dice_weight=2.0, mask=y != 1),
         lambda z, y: ce_dice(z, y, y != 1), _CLASSES),
    Case("combo, multilabel", partial(combo_loss, mode="multilabel", alpha=0.7, beta=0.2),
         lambda z, t: combo(z.sigmoid(), t, 0.7, 0.2), _LABELS),
    Case("combo of probabilities",
         lambda z, t: combo_loss(z.sigmoid(), t, "multilabel", False, 2.0, alpha=0.7, beta=0.2),
         lambda z, t: combo(z.sigmoid(), t, 0.7, 0.2, 2.0), _LABELS),
    Case("lovasz hinge", lovasz_hinge_loss, lovasz_hinge, _BINARY),
    Case("lovasz hinge, of images, masked, none",
         lambda z, t: lovasz_hinge_loss(z, t, True, reduction="none", mask=torch.arange(6, device=z.device) != 2),
         lambda z, t: of_images(lovasz_hinge, *[x[..., torch.arange(6) != 2] for x in (z, t)]), _BINARY),
    Case("lovasz softmax", lovasz_softmax_loss, lovasz_softmax, _CLASSES),
    Case("lovasz softmax, ignored", partial(lovasz_softmax_loss, ignore_index=2),
         lambda z, y: lovasz_softmax(z, y, counts=y != 2), _CLASSES),
    Case("lovasz softmax, all, of images, sum",
         lambda z, y: lovasz_softmax_loss(z.softmax(1), y, "all", True, from_logits=False, reduction="sum"),
         lambda z, y: of_images(partial(lovasz_softmax, is_all=True), z, y).sum(), _CLASSES),
]  # fmt: skip
