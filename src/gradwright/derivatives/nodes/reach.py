"""Patterns of reach: which entries of one sample's target reach which entries of a value. Means for ``Rule.spread``.

NOTE [A pattern is of one sample]: `spread` sees a step as one sample sees it. Its patterns are boolean, [D, *shape],
D entries of the sample's target and `shape` that of the value with B replaced by 1: a value [B, C, L] has shape
[1, C, L], a value [S * B, E] (`Place(0, outer=S)`) has [S, E]. `step.shape()` and `into.shape` are these shapes; what a
node saved (`_saved_sym_sizes`) still counts the whole batch, so a rule reads shapes from the step alone.
A pattern covers the truth: an entry that may reach is True; what values do (a zero weight, a closed gate, a ReLU's
mask) is not asked. Where a rule can't tell by structure (an index that differs by sample), it returns {}.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor


def broadcast_reach(reach: Tensor, shape: torch.Size) -> Tensor:
    """The pattern of a value that was broadcast to ``shape``.

    >>> broadcast_reach(torch.eye(2, dtype=torch.bool).reshape(2, 2), torch.Size([1, 3, 2])).shape
    torch.Size([2, 1, 3, 2])
    """
    missing = len(shape) - (reach.ndim - 1)
    return reach.reshape(len(reach), *(1,) * missing, *reach.shape[1:]).expand(len(reach), *shape)


def joined_reach(reaches: Sequence[Tensor | None], shape: torch.Size) -> Tensor:
    """The pattern of an operation entry by entry on several inputs, each broadcast to ``shape``: their union.

    >>> first, second = torch.tensor([[True, False]]), torch.tensor([[False]])
    >>> joined_reach([first, None, second], torch.Size([1, 2])).tolist()
    [[[True, False]]]
    """
    known = [broadcast_reach(reach, shape) for reach in reaches if reach is not None]
    union = known[0]
    for other in known[1:]:
        union = union | other
    return union


def mixed_reach(reach: Tensor, axes: Sequence[int]) -> Tensor:
    """Whatever reaches one entry along ``axes`` (axes of the value) reaches all of them: softmax, normalisations.

    >>> mixed_reach(torch.eye(2, dtype=torch.bool).reshape(2, 1, 2), [-1]).all()
    tensor(True)
    """
    return summed_reach(reach, axes, keepdim=True).expand(reach.shape)


def summed_reach(reach: Tensor, axes: Sequence[int], keepdim: bool) -> Tensor:
    """The pattern of a sum, mean or product along ``axes`` (axes of the value).

    >>> summed_reach(torch.eye(2, dtype=torch.bool).reshape(2, 1, 2), [1], keepdim=False).tolist()
    [[True], [True]]
    """
    dims = reach.ndim - 1
    for axis in sorted((axis % dims + 1 for axis in axes), reverse=True):
        if reach.stride(axis) == 0 and reach.shape[axis]:  # expanded: all the same
            reach = reach.narrow(axis, 0, 1)
        reach = reach.any(axis, keepdim=keepdim)
    return reach
