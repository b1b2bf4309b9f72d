"""From the losses of the classes to one number."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from gradwright.losses.common.arguments import Empty, Reduction
from gradwright.losses.segmentation.overlap import Overlap

_HALF = (torch.float16, torch.bfloat16)


def over_classes(losses: Tensor, sums: Overlap, input: Tensor, reduction: Reduction, empty: Empty) -> Tensor:
    """Zero for a class that no target belongs to, then reduced; rounded to the dtype of ``input``.

    The mean is over all classes, as segmentation_models_pytorch has it. Where nothing at all counts it is 0, or NaN.
    """
    is_there = sums.true > 0
    losses = torch.where(is_there, losses, 0.0)
    if empty == "nan":
        # torch.where keeps the graph, with a gradient of zero.
        losses = torch.where(is_there.any(), losses, math.nan)
    if reduction == "mean":
        losses = losses.mean()
    elif reduction == "sum":
        losses = losses.sum()
    dtype = input.dtype
    if dtype in _HALF and torch.is_autocast_enabled(input.device.type):
        dtype = torch.float32
    return losses.to(dtype)
