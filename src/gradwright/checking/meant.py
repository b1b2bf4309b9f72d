"""Could a gradient that is not the derivative be meant so? Which of the causes describes it then?

Where the forward is the identity: zero, a factor, a mask, a function of each number of the cotangent by itself
(clipping), the cotangent with another length (clipping its norm). Where it is piecewise constant, and so the true
gradient zero: anything linear in the cotangent, by which an entry hears of its own output. What depends on chance or
on no cotangent, what is added, what belongs to another place: that is a mistake.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from gradwright.checking.causes import FORMULA, Case, Cause, fit
from gradwright.checking.causes.case import Oracle
from gradwright.checking.evidence import Point
from gradwright.checking.trial import TimeUp, flat

# A difference smaller than this share is no other gradient, only a worse one.
VISIBLE = 1e-2
NEVER_MEANT = (
    "missing grad_output", "additive offset", "transpose", "permutation", "batch rows mixed", "precision lost",
    "nondeterminism", "state kept between calls", "swapped inputs",
)  # fmt: skip


@dataclass(frozen=True)
class _Supposed:
    """A truth that is the cotangent itself, or zero."""

    entries: torch.Tensor
    zero: bool
    doubt: float = 1e-12
    exact: bool = True

    def under(self, cotangents: Sequence[torch.Tensor]) -> torch.Tensor:
        if self.zero:
            return torch.zeros(self.entries.numel(), dtype=torch.float64, device="cpu")
        return torch.cat([flat(cotangent) for cotangent in cotangents])

    def elsewhere(self, point: Point, index: int) -> Oracle:
        return self


def fitted_to(point: Point, index: int, kind: str) -> tuple[Cause, bool]:
    """The cause that describes it, and whether it could be meant so.

    It is fitted beside the identity's own gradient; of a piecewise constant forward, beside zero and then, for what a
    straight-through estimator would return, beside the cotangent. Cost: as ``causes.fit``, and 4 calls.
    """
    entries = torch.arange(point.returned[index].numel(), device="cpu")
    cotangents = point.trial.cotangents
    straight = len(cotangents) == 1 and flat(cotangents[0]).numel() == entries.numel()
    if kind == "identity":
        cause = fit(Case(point, index, _Supposed(entries, zero=False))) if straight else FORMULA
        return cause, _meant_on_identity(point, index, cause)
    cause = fit(Case(point, index, _Supposed(entries, zero=True)))
    if cause.name == "batch rows mixed" and not _rows_apart(point, index):
        cause = FORMULA  # an argmax over the rows has to hear of all of them
    if cause.name == "formula" and straight:
        beside = fit(Case(point, index, _Supposed(entries, zero=False)))
        if beside.name in NEVER_MEANT and (beside.name != "batch rows mixed" or _rows_apart(point, index)):
            cause = beside
    return cause, cause.name not in (*NEVER_MEANT, "nonlinear in the cotangent")


def _meant_on_identity(point: Point, index: int, cause: Cause) -> bool:
    cotangent = torch.cat([flat(c) for c in point.trial.cotangents])
    returned = point.returned[index]
    if cotangent.shape == returned.shape:
        if float((returned - cotangent).abs().max()) < VISIBLE * float(cotangent.abs().max()):
            return False
        along = float(returned @ cotangent) / float(cotangent @ cotangent)
        if float((returned - along * cotangent).abs().max()) <= 1e-6 * float(returned.abs().max()):
            return True
    if cause.name in NEVER_MEANT:
        return False
    return (cause.name != "formula" and cause.name != "nonlinear in the cotangent") or _each_by_itself(point, index)


def _each_by_itself(point: Point, index: int) -> bool:
    """Does each number of the gradient depend on its own number of the cotangent only, in the same way everywhere?"""
    trial, returned = point.trial, point.returned[index]
    half = torch.arange(returned.numel(), device="cpu") % 2 == 0
    try:
        mixed = [
            torch.where(half.reshape(c.shape) if not c.is_complex() else c.real > 0, c, d)
            for c, d in zip(trial.cotangents, trial.redrawn(trial.seed + 29), strict=True)
        ]
        alone = trial.gradient(mixed)[index]
        level = trial.gradient([torch.full_like(c, 0.7) for c in trial.cotangents])[index]
    except TimeUp:
        raise
    except Exception:  # a backward that refuses other cotangents
        return False
    size = 1e-9 * float(returned.abs().max())
    same = float((alone - returned)[half].abs().max()) <= size if trial.cotangents[0].is_complex() is False else True
    values = level[level.abs() > 1e-12]
    even = not values.numel() or float(values.max() - values.min()) <= 1e-9 * float(values.abs().max())
    return same and (even or _scaled_by_itself(point, index))


def _scaled_by_itself(point: Point, index: int) -> bool:
    """Is each number of the cotangent multiplied with one of its own, as a Riemannian metric does it?"""
    first, other = point, point.with_other_cotangents()
    one, two = (torch.cat([flat(c) for c in each.trial.cotangents]) for each in (first, other))
    apart = (first.returned[index] * two - other.returned[index] * one).abs()
    return float(apart.max()) <= 1e-9 * float((first.returned[index] * two).abs().max())


def _rows_apart(point: Point, index: int) -> bool:
    """Does a row of the input move no output of another row? Also by much: the forward is piecewise constant."""
    trial = point.trial
    shape = trial.original[index].shape
    if not shape or shape[0] < 2 or any(not c.dim() or c.shape[0] != shape[0] for c in trial.cotangents):
        return False
    for row in (0, shape[0] - 1):
        shift = torch.zeros_like(trial.inputs[index]).reshape(shape[0], -1)
        shift[row] = -2 * trial.inputs[index].reshape(shape[0], -1)[row]
        moved = trial.evaluate(index, shift.reshape(-1))
        for after, before in zip(moved, trial.values, strict=True):
            changed = (after != before).reshape(shape[0], -1).any(1)
            changed[row] = False
            if bool(changed.any()):
                return False
    return True
