"""One number per sample: how it is reduced over the batch, and how a block of derivatives becomes one."""

from __future__ import annotations

from typing import Literal, TypeAlias, get_args

import torch
from torch import Tensor

from gradwright.errors import UsageError

#: As in torch.nn.functional: one number for the batch, or one per sample.
Reduction: TypeAlias = Literal["mean", "sum", "none"]


def read_reduction(reduction: str) -> None:
    """Judged before anything is computed.  Raises: UsageError."""
    if reduction not in get_args(Reduction):
        raise UsageError(f'reduction={reduction!r}: choose "mean", "sum" or "none"')


def reduced(values: Tensor, reduction: Reduction) -> Tensor:
    """``values`` [B]: as they are, their sum, or their mean; the mean and the sum of no samples are 0.

    >>> reduced(torch.tensor([1.0, 3.0]), "mean").item()
    2.0
    >>> reduced(torch.zeros(0), "mean").item()
    0.0
    """
    if reduction == "none":
        return values
    total = values.sum()
    return total if reduction == "sum" else total / max(len(values), 1)


def widened(blocks: Tensor) -> Tensor:
    """Half precision as float32: a sum of squares of float16 numbers leaves its range at 65504."""
    return blocks.float() if blocks.dtype in (torch.float16, torch.bfloat16) else blocks


def squares(blocks: Tensor) -> Tensor:
    """||block||_F^2 of every sample: [B, ...] -> [B], over ALL axes but the first (issue 27 of wgan-gp: not axis 1)."""
    flat = widened(blocks).flatten(1) if blocks.ndim > 1 else widened(blocks).unsqueeze(1)
    return (flat.abs() if flat.is_complex() else flat).square().sum(1)


def norms(blocks: Tensor) -> Tensor:
    """||block||_F of every sample: [B, ...] -> [B], over all axes but the first.

    The derivative at a block of zeros, where the norm has a corner, is the subgradient 0; sqrt of a sum of squares
    gives 0 * inf = NaN there.

    >>> block = torch.zeros(1, 2, requires_grad=True)
    >>> torch.autograd.grad(norms(block).sum(), block)[0].tolist()
    [[0.0, 0.0]]
    """
    flat = widened(blocks).flatten(1) if blocks.ndim > 1 else widened(blocks).unsqueeze(1)
    norm: Tensor = torch.linalg.vector_norm(flat, dim=1)
    return norm


def one_each(values: object, name: str, count: int | None = None) -> Tensor:
    """``values`` as [B], where they are one number per sample: [B], [B, 1], [B, 1, 1, 1].  Raises: UsageError.

    ``count``: B, where it is known.

    >>> one_each(torch.zeros(5, 1), "scores").shape
    torch.Size([5])
    """
    if not isinstance(values, Tensor):
        raise UsageError(f"{name}: a {type(values).__name__}; needed is a tensor [B], one number per sample")
    if values.ndim == 0:
        raise UsageError(
            f"{name}: a scalar; needed is one number per sample, [B], before the mean or sum over the batch "
            "(a loss with reduction='none'; a network that returns its outputs, not their mean)"
        )
    if values.numel() != len(values) or (count is not None and len(values) != count):
        needed = f"[{len(values) if count is None else count}]"
        raise UsageError(
            f"{name}: shape {list(values.shape)}; needed is one number per sample, {needed}. Where there are several "
            "per sample (patches, classes), say which is meant: their mean, .flatten(1).mean(1), their sum, or one"
        )
    with torch.enable_grad():  # it is to be differentiated, whoever asks for the value alone
        return values.reshape(-1)
