"""Calls at inputs of a low precision, judged beside float64 at the same rounded inputs.

Notation: x̃ are the inputs as rounded to the low dtype, t the truth at x̃ in float64, n what the native way (autograd of
the same or of a twin's forward) gives at x̃ in that dtype, ε that dtype's unit of rounding. Allowed is an error of a few
times max |n - t|, and beside it what no arithmetic in that dtype can avoid: some ε of the largest entry, and as much as
t itself moves when x̃ and the cotangents move by ε/2 (the spread).
"""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from gradwright.checking.trial import DOUBLE, HALF, SINGLE, Precision, Trial, largest_entry


def precision_as_given(args: Sequence[Any]) -> Precision:
    """The precision of the coarsest floating-point tensor among ``args``, nothing raised to it."""
    inexact = [arg.dtype for arg in args if isinstance(arg, torch.Tensor) and _is_inexact(arg)]
    return precision_in(max((torch.finfo(dtype).eps for dtype in inexact), default=DOUBLE.eps))


def precision_in(eps: float) -> Precision:
    """The precision of dtypes with this unit of rounding; tensors stay what they are."""
    nearest = next(precision for precision in (DOUBLE, SINGLE, HALF) if eps <= 2 * precision.eps)
    return dataclasses.replace(nearest, floor=None, eps=eps, tolerance=max(nearest.tolerance, 4 * eps))


def _is_inexact(tensor: torch.Tensor) -> bool:
    return tensor.is_floating_point() or tensor.is_complex()


def cotangents_like(trial: Trial, given: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """``given``, in the dtypes of the trial's own cotangents."""
    return [new.to(old) for new, old in zip(given, trial.cotangents, strict=True)]


def spread(truth: Trial, gradients: dict[int, torch.Tensor], eps: float) -> dict[int, torch.Tensor]:
    """By how much each entry of the truth moves when inputs and cotangents move by half a unit. Cost: 2 gradients."""
    generator = torch.Generator().manual_seed(truth.seed + 11)
    found = {index: torch.zeros_like(gradient) for index, gradient in gradients.items()}
    for _ in range(2):
        moved = jogged(truth, eps, generator).gradient([_jogged(c, eps, generator) for c in truth.cotangents])
        for index, gradient in gradients.items():
            found[index] = torch.maximum(found[index], (moved[index] - gradient).abs())
    return found


def jogged(trial: Trial, eps: float, generator: torch.Generator) -> Trial:
    """The trial at inputs of which every entry is moved by up to half a unit; its values are still the old ones."""
    beside = copy.copy(trial)
    beside.original = [_jogged(arg, eps, generator) for arg in trial.original]
    return beside


def _jogged(value: Any, eps: float, generator: torch.Generator) -> Any:
    if not isinstance(value, torch.Tensor) or not _is_inexact(value):
        return value
    kick = 1 + eps * (torch.rand(value.shape, generator=generator, dtype=torch.float64, device="cpu") - 0.5)
    wide = value.detach().to(torch.complex128 if value.is_complex() else torch.float64)
    return wide * kick.to(wide.device)


@dataclass(frozen=True)
class Compared:
    """The entry that exceeds what is allowed by most (flat index ``worst``): its ``error``, what is ``allowed`` there,
    and the ``native`` way's largest error, all relative to the largest entry of the truth."""

    error: float
    allowed: float
    native: float
    worst: int
    finite: bool = True

    @property
    def ok(self) -> bool:
        return self.finite and self.error <= self.allowed

    @property
    def times(self) -> float:
        """How many times what is allowed."""
        return self.error / self.allowed if self.allowed else float("inf")


def compared(
    found: torch.Tensor,
    truth: torch.Tensor,
    native: torch.Tensor,
    moved: torch.Tensor,
    eps: float,
    row: int,
    *,
    most: float = float("inf"),
    least: float = 0.0,
    times: float = 8.0,
    ulps: float = 4.0,
    strays: float = 2.0,
) -> Compared:
    """``found`` against ``truth``, judged by ``native`` and by the spread ``moved``; all flat.

    ``row``: how many numbers stand side by side in the last axis, so that a fault in one small row is not measured by
    the largest; ``most``, ``least``: the largest number of the dtype, and the
    smallest step between two. Entries that this dtype can't hold, or that the native way
    loses too, are left out; ``finite`` is False if any other is lost.
    """
    fair = torch.isfinite(native) & torch.isfinite(truth) & torch.isfinite(moved) & (truth.abs() <= 0.5 * most)
    lost = fair & ~torch.isfinite(found)
    if bool(lost.any()):
        return Compared(float("inf"), 0.0, 0.0, int(lost.nonzero()[0]), finite=False)
    zero = torch.zeros((), dtype=truth.dtype, device="cpu")
    error = torch.where(fair, (found - truth).abs(), zero)
    own = torch.where(fair, (native - truth).abs(), zero)
    size = torch.where(fair, truth.abs(), zero)
    stray = torch.where(fair, moved, zero)
    allowed = (times * own.max() + ulps * (eps * size.max() + least) + strays * stray.max()).expand_as(error)
    if 8 <= row < error.numel():
        rows = [vector.view(-1, row).amax(1, keepdim=True) for vector in (own, size, stray)]
        in_row = 2 * times * rows[0] + 2 * ulps * eps * rows[1] + 2 * strays * rows[2] + eps * size.max() + ulps * least
        allowed = torch.minimum(allowed, in_row.expand(-1, row).reshape(-1))
    excess = error - allowed
    worst = int(excess.argmax())
    largest = largest_entry(size) or 1.0
    return Compared(float(error[worst]) / largest, float(allowed[worst]) / largest, largest_entry(own) / largest, worst)
