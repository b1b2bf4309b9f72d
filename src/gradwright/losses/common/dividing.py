"""What a mean is divided by: how many elements count, a sum of weights, or what the caller says."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from gradwright.losses.common.arguments import Options, are_values_to_be_read


class Share(NamedTuple):
    """A sum times ``of_each`` is what was asked for, then times ``after`` (NaN for a mean of nothing that is NaN)."""

    of_each: float | Tensor
    after: float | Tensor | None = None


def share_of(options: Options, count: float | Tensor) -> Share:
    """``count``: of what a mean is divided by, where no ``num_items`` are given."""
    if options.reduction != "mean":
        return Share(1.0)
    if options.num_items is not None:
        count = options.num_items
    if isinstance(count, Tensor):
        if not are_values_to_be_read([count]):
            return _of_unread(count, options.empty == "nan")
        count = float(count)
    if count:
        return Share(1.0 / count)
    return Share(0.0, math.nan if options.empty == "nan" else None)


def _of_unread(count: Tensor, is_nan: bool) -> Share:
    """Without a look at the number: on an accelerator that would wait for all that is queued."""
    count = count.detach().to(torch.float64 if count.device.type != "mps" else torch.float32)
    is_there = count != 0
    of_each = torch.where(is_there, 1.0 / torch.where(is_there, count, 1.0), 0.0)
    return Share(of_each, torch.where(is_there, 1.0, math.nan) if is_nan else None)


def counted(mask: Tensor | None, elements: int) -> float | Tensor:
    """How many of so many elements count."""
    if mask is None:
        return float(elements)
    repeated = elements / mask.numel() if mask.numel() else 0.0
    there = mask.count_nonzero()
    if are_values_to_be_read([mask]):
        return there.item() * repeated
    return there.to(torch.float32 if mask.device.type == "mps" else torch.float64) * repeated
