"""The losses of a window over all ranks, which have to have the same ones."""

from __future__ import annotations

import zlib

import torch
from torch import Tensor

from gradwright.errors import AccumulationError, UsageError
from gradwright.training.counting import MOST_LOSSES
from gradwright.training.ranks import Ranks

_BITS = 20  # of the mark of a set of names: its square times a million ranks is a whole number in float64


def sum_losses(ranks: Ranks, losses: dict[str, Tensor]) -> dict[str, Tensor]:
    """Each loss summed over the ranks.

    With the losses goes a mark h of their names: W sum(h²) = sum(h)² only where all W ranks have the same h.
    Cost: one all-reduce of 18 numbers; waits for the device.
    Raises: AccumulationError, where a rank has other losses; RankLost.
    """
    if ranks.count == 1:
        return losses
    if len(losses) > MOST_LOSSES:
        raise UsageError(f"{len(losses)} losses are told of; {MOST_LOSSES} are the most on several ranks")
    mark = float(zlib.crc32("\0".join(losses).encode()) >> (32 - _BITS))
    row = torch.tensor([0.0] * MOST_LOSSES + [mark, mark**2], dtype=torch.float64)
    if losses:
        stacked = torch.stack(list(losses.values()))
        row = row.to(stacked.device)
        row[: len(losses)] = stacked
    ranks.sum_([row], "adding the losses up")
    marks, squares = row[-2:].tolist()
    if ranks.count * squares != marks**2:
        raise AccumulationError(
            f"rank {ranks.name}, window {ranks.window}: the ranks have different losses in this window (here: "
            f"{', '.join(repr(name) for name in losses)}), so their gradients can't be put together. Hand each loss "
            "over on every rank, as a zero with no items where there is none of it"
        )
    return dict(zip(losses, row.unbind(), strict=False))
