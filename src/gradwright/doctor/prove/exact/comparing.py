"""Are two outcomes equal as real formulas?"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch

from gradwright.doctor.prove.exact.number import Number
from gradwright.doctor.prove.exact.run import Outcome

VISIBLE = 1e-5  # relative to the largest element: rounding of float64 does not reach it, whatever the order of sums


@dataclass(frozen=True)
class Difference:
    """``certain``: no identity of transcendental functions, and no rounding of constants, could explain it."""

    told: str
    certain: bool


def first_difference(before: Outcome, after: Outcome) -> Difference | None:
    if after.raised:
        return Difference(f"the candidate raised {after.raised}", certain=False)  # floats say whether that is its fault
    if before.results.keys() != after.results.keys():
        return Difference("another number of outputs, or gradients for others", certain=True)
    pairs = [(name, value, after.results[name]) for name, value in before.results.items()]
    if before.second is not None and after.second is not None:
        # Where the original has none, nobody relied on it.
        pairs += [(name, one, after.second.get(name)) for name, one in before.second.items() if one is not None]
    unsure = sorted(before.unsure | after.unsure)
    for name, old, new in pairs:
        told, certain = _different(old, new)
        if told and (certain or not unsure):
            return Difference(f"{name}: {told}", certain=True)
        if told:
            return Difference(f"{name}: equal, if at all, only by an identity of {' and '.join(unsure)}", certain=False)
    return None


def _different(old: Any, new: Any) -> tuple[str, bool]:
    """How they differ, "" if they don't; and whether floating-point numbers show it already."""
    if isinstance(old, Number) and new is None:  # a second-order gradient that is no longer connected
        return ("it is not connected to it any more" if old.residues[0].any() else ""), True
    if isinstance(old, float) != isinstance(new, float):  # one of them left torch by float(x), which remembers nothing
        old, new = (one.value.item() if isinstance(one, Number) and one.dim() == 0 else one for one in (old, new))
    if not isinstance(old, (Number, torch.Tensor)) or not isinstance(new, (Number, torch.Tensor)):
        return _different_objects(old, new), True
    if old.shape != new.shape:
        return f"shape {list(new.shape)}, expected {list(old.shape)}", True
    if not isinstance(old, Number) or not isinstance(new, Number):
        if isinstance(old, Number) or isinstance(new, Number):
            return "floating-point numbers on one side only", True
        same = torch.allclose(old, new, equal_nan=True) if old.is_floating_point() else torch.equal(old, new)
        return ("" if same else "other integers or truth values"), True
    finite = old.value.isfinite() & new.value.isfinite()
    odd = ~finite & (old.value != new.value) & ~(old.value.isnan() & new.value.isnan())
    wrong = odd | (finite & (old.residues[0] != new.residues[0]))
    if not wrong.any():
        return "", False
    scale = float(torch.where(finite, old.value.abs(), 0.0).max())
    visible = odd | (finite & wrong & ((old.value - new.value).abs() > VISIBLE * scale))
    chosen = visible if visible.any() else wrong
    at = chosen.nonzero()[0].tolist()
    told = f"{float(new.value[tuple(at)]):.6g} at {at}, expected {float(old.value[tuple(at)]):.6g}"
    return told + ("" if visible.any() else " (another formula, close to it there)"), bool(visible.any())


def _different_objects(old: Any, new: Any) -> str:
    """Of anything but numbers and strings only the type can be compared (a module, a device)."""
    same = type(old) is type(new)
    if same and isinstance(old, (int, float)):
        same = old == new or math.isclose(old, new, rel_tol=1e-9) or (math.isnan(old) and math.isnan(new))
    elif same and isinstance(old, str):
        same = old == new
    return "" if same else f"{_told(new)}, expected {_told(old)}"


def _told(value: Any) -> str:
    return repr(value) if isinstance(value, (int, float, str)) or value is None else f"a {type(value).__name__}"
