"""Does a candidate do what the original does? Judged against the original in float64, by its own rounding error."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from gradwright.doctor.prove.trial import Outcome

# Times the rounding of one operation that every entry may differ by, relative to itself and to the largest entry.
OF_ITSELF = 16.0
OF_THE_LARGEST = 64.0


@dataclass(frozen=True)
class Difference:
    """The largest difference, relative to the largest entry, and the tolerance for it; ``told`` if it is too large."""

    error: float = 0.0
    tolerance: float = 0.0
    told: str = ""


def compare(original: Outcome, reference: Outcome, candidate: Outcome, *, outputs_only: bool = False) -> Difference:
    """``reference`` is the original's outcome in float64 (or that of ``original`` again, where it raised there)."""
    if candidate.raised:
        return Difference(told=f"it raised {candidate.raised}; the original does not")
    if candidate.changed - original.changed:
        return Difference(told=f"it changed {', '.join(sorted(candidate.changed - original.changed))} in place")
    if candidate.shares_memory - original.shares_memory:
        return Difference(told="its output shares memory with an input; the original's does not")
    worst = Difference()
    for what, mine, exact, theirs in (
        ("output", original.outputs, reference.outputs, candidate.outputs),
        ("gradient", original.gradients, reference.gradients, candidate.gradients),
        ("second-order gradient", original.second, reference.second, candidate.second),
    ):
        if mine is None or (outputs_only and what != "output"):
            continue
        if theirs is None or len(mine) != len(theirs):
            return Difference(told=f"it has another number of {what}s")
        for index, value in enumerate(mine):
            if value is None and what == "second-order gradient":
                continue  # the original has none here (it went through .item(), say); more is no fault
            aside = exact[index] if exact is not None and len(exact) == len(mine) else value
            difference = compare_values(value, aside, theirs[index])
            if difference.told:
                return Difference(told=f"{what} {index}: {difference.told}")
            if difference.error > worst.error:
                worst = difference
    return worst


def compare_values(original: Any, reference: Any, candidate: Any) -> Difference:
    if not isinstance(original, torch.Tensor) or not isinstance(candidate, torch.Tensor):
        same = candidate is original or (type(candidate) is type(original) and bool(candidate == original))
        return Difference() if same else Difference(told=f"returned {_short(candidate)}, expected {_short(original)}")
    if original.shape != candidate.shape:
        return Difference(told=f"returned shape {list(candidate.shape)}, expected {list(original.shape)}")
    if original.dtype != candidate.dtype:
        return Difference(told=f"returned {candidate.dtype}, expected {original.dtype}")
    if original.is_complex():
        parts = [
            torch.view_as_real(one.to(torch.complex128).resolve_conj()) for one in (original, reference, candidate)
        ]
        return _numbers(parts[0], parts[1], parts[2], torch.finfo(original.dtype).eps)
    eps = torch.finfo(original.dtype).eps if original.is_floating_point() else 0.0
    if not isinstance(reference, torch.Tensor) or reference.shape != original.shape:
        reference = original
    return _numbers(original.double(), reference.double(), candidate.double(), eps)


def _numbers(original: torch.Tensor, reference: torch.Tensor, candidate: torch.Tensor, eps: float) -> Difference:
    if original.numel() == 0:
        return Difference()
    finite = original.isfinite()
    same_elsewhere = (candidate == original) | (candidate.isnan() & original.isnan())
    other = torch.where(finite, ~candidate.isfinite(), ~same_elsewhere)
    if bool(other.any()):
        return Difference(told=_at(other.nonzero()[0].tolist(), original, candidate))
    exact = torch.where(finite & reference.isfinite(), reference, original)
    rounding = torch.where(finite, (original - exact).abs(), torch.zeros_like(original))
    apart = torch.where(finite, (candidate - exact).abs(), torch.zeros_like(original))
    size = torch.where(finite, exact.abs(), torch.zeros_like(original))
    largest = float(size.max())
    of_all = OF_THE_LARGEST * eps * largest + 4 * float(rounding.max())
    allowed = torch.maximum(OF_ITSELF * eps * size + 4 * rounding, torch.full_like(size, of_all))
    excess = apart - allowed
    scale = largest or 1.0
    if bool((excess > 0).any()):
        place = _place(int(excess.argmax()), excess.shape)
        return Difference(float(apart.max()) / scale, of_all / scale, _at(place, original, candidate))
    return Difference(float(apart.max()) / scale, of_all / scale)


def equal(original: Outcome, one: Outcome, other: Outcome) -> bool:
    """The same numbers, bit by bit, but for the sign of zero and of NaN, wherever the original has a number."""
    if one.raised != other.raised or one.changed != other.changed:
        return False
    second = original.second or ()
    if second and (len(one.second or ()) != len(second) or len(other.second or ()) != len(second)):
        return False
    asked = [index for index, value in enumerate(second) if value is not None]
    mine = [*one.outputs, *one.gradients, *((one.second or [])[index] for index in asked)]
    theirs = [*other.outputs, *other.gradients, *((other.second or [])[index] for index in asked)]
    return len(mine) == len(theirs) and all(_same(a, b) for a, b in zip(mine, theirs, strict=True))


def _same(one: Any, other: Any) -> bool:
    if not isinstance(one, torch.Tensor) or not isinstance(other, torch.Tensor):
        return one is other or (type(one) is type(other) and bool(one == other))
    if one.shape != other.shape or one.dtype != other.dtype:
        return False
    return bool(((one == other) | (one.isnan() & other.isnan())).all())


def _place(index: int, shape: torch.Size) -> list[int]:
    return [int(one) for one in torch.unravel_index(torch.tensor(index, device="cpu"), shape)]


def _at(place: list[int], original: torch.Tensor, candidate: torch.Tensor) -> str:
    returned, expected = candidate[tuple(place)].item(), original[tuple(place)].item()
    return f"at {place} returned {returned:.6g}, expected {expected:.6g}"


def _short(value: Any) -> str:
    return f"a tensor {list(value.shape)}" if isinstance(value, torch.Tensor) else repr(value)[:60]
