"""Boundary points of a call: where formulas divide by zero, ties break, exponentials overflow and masks hide it all."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from gradwright.checking.copies import widened
from gradwright.checking.trial import Trial


@dataclass(frozen=True)
class BoundaryPoint:
    """``args`` of a call that differs from the given one at position ``at``; ``region`` names what is special there.

    ``entries``: flat indices of the entries that are special; of a mask, none. ``scaled``: how many times larger than
    in the given call its numbers are, where that is what is special.
    """

    region: str
    args: list[Any]
    at: int
    entries: Tensor
    scaled: float = 1.0

    def told(self, names: Sequence[str]) -> str:
        """The region with the argument's name in it: "q = 0", "mask all False"."""
        if self.at < 0:
            return self.region
        name = names[self.at]
        return f"{name} {self.region}" if self.region.startswith("all ") else self.region.replace("x", name)


def boundary_points(trial: Trial, index: int) -> Iterator[BoundaryPoint]:
    """Points of input ``index``: 0, one entry 0, ties, 1, tiny and huge values of either sign."""
    given = trial.original[index]
    values = given.detach().to(widened(given.dtype, trial.precision.floor))
    count = values.numel()
    size = values.abs().square().mean().sqrt()
    scale = float(size) if 0 < float(size) < 1e100 else 1.0
    everywhere = torch.arange(trial.inputs[index].numel(), device="cpu")
    reals = 2 if values.is_complex() else 1

    def point(region: str, new: Tensor, entries: Tensor = everywhere, scaled: float = 1.0) -> BoundaryPoint:
        args = list(trial.original)
        args[index] = new
        return BoundaryPoint(region, args, index, entries, scaled)

    def with_entries(region: str, places: tuple[int, ...], value: Any) -> BoundaryPoint:
        new = values.clone(memory_format=torch.contiguous_format)
        new.view(-1)[list(places)] = value
        entries = torch.tensor([reals * place + part for place in places for part in range(reals)], device="cpu")
        return point(region, new, entries)

    yield point("x = 0", torch.zeros_like(values))
    if count > 1:
        yield with_entries("one entry of x = 0", (count // 2,), 0)
        yield point("x all equal (ties)", torch.full_like(values, scale))
        yield with_entries("two entries of x equal (ties)", (0, 1), values.reshape(-1)[0])
    yield point("x = -0.0", -torch.zeros_like(values))
    yield point("x = 1", torch.ones_like(values))
    yield point("|x| = 1e-08", values * (1e-8 / scale), scaled=1e-8)
    largest = float(torch.finfo(values.dtype).max)
    for factor in (1e4, 1e6, 1e8):  # in steps, so that one who grows slow is seen before it never ends
        if factor**2 > largest:
            continue
        for sign in (1, -1):
            region = f"x = {'-' if sign < 0 else ''}{factor:.0e}".replace("+0", "")
            yield point(region, (sign * values.abs()).to(values.dtype) * (factor / scale), scaled=factor)


def mask_points(trial: Trial) -> Iterator[BoundaryPoint]:
    """Masks all one way: bool arguments, and floating-point ones that hold -inf and are not judged."""
    nothing = torch.empty(0, dtype=torch.long, device="cpu")
    for at, value in enumerate(trial.original):
        if not isinstance(value, Tensor) or at in trial.wanted or not value.numel():
            continue
        filled: list[tuple[str, Any]] = []
        if value.dtype is torch.bool:
            filled = [("all False", False), ("all True", True)]
        elif value.is_floating_point() and bool((value == float("-inf")).any()):
            filled = [("all -inf", float("-inf"))]
        for words, fill in filled:
            args = list(trial.original)
            args[at] = torch.full_like(value, fill)
            yield BoundaryPoint(words, args, at, nothing)
