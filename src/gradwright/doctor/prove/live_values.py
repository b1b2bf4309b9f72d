"""What a run on a live graph left, compared: the original's own rounding is all there is to go by."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor


def leaves_of_graph(roots: Sequence[Tensor]) -> Iterator[Tensor]:
    """The tensors that a graph begins with."""
    front = [root.grad_fn if root.grad_fn is not None else root.expand_as(root).grad_fn for root in roots]
    seen = set()
    while front:
        node = front.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        if hasattr(node, "variable"):
            yield node.variable
        front += [edge[0] for edge in node.next_functions]


def apart(before: Any, after: Any, times: float) -> tuple[str, float, float]:
    if not isinstance(before, Tensor) or not isinstance(after, Tensor):
        if isinstance(before, (int, float)) and isinstance(after, (int, float)):
            before, after = torch.tensor(before, dtype=torch.float64), torch.tensor(after, dtype=torch.float64)
            return _numbers(before, after, times * torch.finfo(torch.float32).eps)
        return ("", 0.0, 0.0) if type(before) is type(after) and before == after else ("it is another thing", 0.0, 0.0)
    if before.shape != after.shape:
        return f"shape {list(after.shape)}, before {list(before.shape)}", 0.0, 0.0
    if before.dtype != after.dtype or before.requires_grad != after.requires_grad:
        return (
            f"{after.dtype}, requires_grad {after.requires_grad}; before {before.dtype}, {before.requires_grad}",
            0.0,
            0.0,
        )
    eps = torch.finfo(before.dtype).eps if before.is_floating_point() or before.is_complex() else 0.0
    wide = torch.complex128 if before.is_complex() else torch.float64
    return _numbers(before.detach().to(wide), after.detach().to(wide), times * eps)


def _numbers(before: Tensor, after: Tensor, tolerance: float) -> tuple[str, float, float]:
    finite = before.isfinite()
    elsewhere = (before == after) | (before.isnan() & after.isnan())
    if not bool((torch.where(finite, after.isfinite(), elsewhere)).all()):
        return "it is not finite in the same places", 0.0, tolerance
    size = torch.where(finite, before, 0).abs()
    difference = torch.where(finite, after - before, 0).abs()
    largest = float(size.max()) if size.numel() else 0.0
    error = float(difference.max()) / (largest or 1.0) if difference.numel() else 0.0
    return (f"it differs by {error:.2g} of its largest entry" if error > tolerance else ""), error, tolerance
