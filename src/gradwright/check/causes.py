"""Why is it wrong? What the backward returned is fitted against the truth, simplest explanation first."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch


@dataclass(frozen=True, slots=True)
class Cause:
    name: str
    factor: float | None = None


def fit(
    returned: torch.Tensor,
    truth: torch.Tensor,
    entries: torch.Tensor | None,
    shape: Sequence[int],
    other_returned: torch.Tensor | None,
    slack: float,
    holds: Callable[[float], bool],
) -> Cause:
    """Name the cause. ``returned`` is flat and whole; ``truth`` is known at the flat indices ``entries`` (``None``: at
    all). ``other_returned`` is what came back for other cotangents, ``slack`` the relative error of ``truth``,
    ``holds(c)`` says whether the factor ``c`` holds for other cotangents as well (one entry always fits some factor).
    """
    part = returned if entries is None else returned[entries]
    largest = float(truth.abs().max())
    if float(part.abs().max()) <= slack * largest:
        return Cause("zero")
    if other_returned is not None and torch.allclose(returned, other_returned, rtol=1e-9, atol=0.0):
        return Cause("cotangent ignored")
    factor = float(truth @ part) / max(float(truth @ truth), 1e-300)
    if factor and float((part - factor * truth).abs().max()) <= slack * abs(factor) * largest and holds(factor):
        return Cause("sign", -1.0) if abs(factor + 1) <= 10 * slack else Cause("factor", factor)
    if len(shape) >= 2 and min(shape[-2:]) > 1 and returned.numel() == torch.Size(shape).numel():
        rows, columns = shape[-2], shape[-1]
        # either the values stand at each other's places, or the transposed block was only reshaped
        for turned in (returned.reshape(-1, columns, rows), returned.reshape(-1, rows, columns)):
            flipped = turned.transpose(-1, -2).reshape(-1)
            candidate = flipped if entries is None else flipped[entries]
            if float((candidate - truth).abs().max()) <= slack * largest:
                return Cause("transposed")
    return Cause("formula")
