"""Logits of classes and their targets: which axis the classes lie along, and what is refused."""

from __future__ import annotations

import torch
from torch import Tensor

from gradwright.kernels.calls.messages import refusal, told
from gradwright.losses.common.arguments import first_place

INTEGERS = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)


def class_axis(where: str, input: Tensor) -> int:
    """1 of [N, C, *], 0 of [C]. Raises: UsageError, where there is no such axis, or no class along it."""
    if not input.ndim:
        raise refusal("input has no axis of classes", where=where, do="hand over logits of shape [N, C, *] or [C]")
    dim = min(1, input.ndim - 1)
    if not input.shape[dim]:
        raise refusal(f"input is {told(input)}: it has no classes", where=f"{where}, axis {dim}", do="check its shape")
    return dim


def require_classes(where: str, input: Tensor, target: Tensor, dim: int) -> None:
    """UsageError for a target that does not hold one class number for each row."""
    if target.dtype not in INTEGERS:
        raise refusal(
            f"target is {told(target)}",
            where=where,
            why="of classes a target holds numbers, as integers; of probabilities it has the shape of input",
            do="target.long()" if not target.is_complex() else "check it",
        )
    rows = (*input.shape[:dim], *input.shape[dim + 1 :])
    if target.shape != rows:
        hint = ""
        if target.ndim == input.ndim and target.shape[dim : dim + 1] == (1,):
            hint = f"target.squeeze({dim})"
        raise refusal(
            f"target has shape {list(target.shape)}, input {list(input.shape)}",
            where=where,
            why=f"the target has one class number for each row along axis {dim} of input: shape {list(rows)}",
            do=hint or "check which axis of input the classes lie along: input.movedim(-1, 1)",
        )


def refuse_class(where: str, target: Tensor, classes: int, ignored: int | None, mask: Tensor | None) -> None:
    """UsageError for the first class number that there is no class of."""
    bad = (target < 0) | (target >= classes)
    if ignored is not None:
        bad &= target != ignored
    if mask is not None:
        bad &= mask
    if bool(bad.any()):
        raise refusal(
            f"target is {target[bad][0].item() if target.ndim else target.item()} at {first_place(bad)}, "
            f"and there are {classes} classes: 0 to {classes - 1}",
            where=f"{where}, target {told(target)}, {int(bad.sum()):,} of {bad.numel():,} rows",
            do="mend the labels (from 1? subtract 1)"
            + (f"; those to leave out are ignore_index={ignored}" if ignored is not None else ""),
        )


def require_class_weight(where: str, weight: Tensor, classes: int) -> None:
    """UsageError for what is not one weight of 0 or more for each class."""
    if not isinstance(weight, Tensor) or not weight.is_floating_point():
        raise refusal(
            f"weight is {told(weight)}", where=where, do="hand over a tensor of real numbers, one for each class"
        )
    if weight.shape != (classes,):
        raise refusal(
            f"weight has shape {list(weight.shape)}, and there are {classes} classes",
            where=where,
            do=f"hand over one weight for each class: shape [{classes}]",
        )


def refuse_class_weight(where: str, weight: Tensor) -> None:
    """UsageError for the first weight that is negative or NaN."""
    bad = ~(weight >= 0)
    if bool(bad.any()):
        raise refusal(
            f"weight is {weight[bad][0].item():.6g} at {first_place(bad)}",
            where=f"{where}, weight {told(weight)}",
            do="a weight is 0 or more; to leave a class out, 0",
        )


def counted_classes(target: Tensor, classes: int, weight: Tensor | None, ignored: int, mask: Tensor | None) -> Tensor:
    """How many rows count, or the sum of the weights of their classes: what a mean is divided by.

    In float64: rounded to float32 it would round every gradient.
    """
    counts = target != ignored
    if mask is not None:
        counts = counts & mask
    if weight is None:
        return counts.count_nonzero()
    each = weight.detach()[target.long().clamp(0, classes - 1)]
    wide = torch.float32 if each.device.type == "mps" else torch.float64
    return torch.where(counts, each, 0).sum(dtype=wide)
