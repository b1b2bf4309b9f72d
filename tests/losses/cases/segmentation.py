"""Losses of overlap."""

from functools import partial

import torch
from tests.losses.case import Case, classes, drawn, normal, yes_or_no
from torch import Tensor

from gradwright import losses


def _dice(z: Tensor, t: Tensor, smooth: float = 0.0) -> Tensor:
    """Of probabilities and labels of one shape, [N, C, *], as segmentation_models_pytorch has it."""
    axes = [axis for axis in range(z.ndim) if axis != 1]
    dice = (2 * (z * t).sum(axes) + smooth) / ((z + t).sum(axes) + smooth).clamp_min(1e-7)
    return ((1 - dice) * (t.sum(axes) > 0)).mean()


def _one_hot(y: Tensor, like: Tensor) -> Tensor:
    return torch.nn.functional.one_hot(y, like.shape[1]).movedim(-1, 1).to(like.dtype)


_BINARY = drawn(normal(2, 1, 5, 6), yes_or_no(2, 1, 5, 6))
_LABELS = drawn(normal(2, 3, 5, 6), yes_or_no(2, 3, 5, 6))
_CLASSES = drawn(normal(2, 4, 5, 6), classes(4, 2, 5, 6))

CASES = [
    Case("dice, binary", losses.dice_loss, lambda z, t: _dice(z.sigmoid(), t), _BINARY, on_kernels=True),
    Case("dice, multilabel, smooth", partial(losses.dice_loss, mode="multilabel", smooth=1.0),
         lambda z, t: _dice(z.sigmoid(), t, 1.0), _LABELS),
    Case("dice, multiclass", partial(losses.dice_loss, mode="multiclass"),
         lambda z, y: _dice(z.softmax(1), _one_hot(y, z)), _CLASSES, on_kernels=True),
    Case("dice, masked", lambda z, y: losses.dice_loss(z, y, "multiclass", mask=y != 1),
         lambda z, y: _dice(z.softmax(1) * (y != 1)[:, None], _one_hot(y, z) * (y != 1)[:, None]), _CLASSES),
    Case("dice of probabilities", lambda z, t: losses.dice_loss(z.sigmoid(), t, "multilabel", from_logits=False),
         lambda z, t: _dice(z.sigmoid(), t), _LABELS),
]  # fmt: skip
