"""The evidence that an explanation is fitted to: one wrong gradient, and whatever more it asks for.

Everything is flat float64, as in ``trial``. The truth is known whole where autograd through the forward was confirmed;
otherwise it comes from columns of the Jacobian by differences, at chosen entries, for any cotangent.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import torch

from gradwright.checking.cotangents import (
    NEGATED,
    OTHER,
    RANDOM,
    SCALED_DOWN,
    SCALED_UP,
    ZEROS,
    Errors,
    error_of,
)
from gradwright.checking.evidence import Point, Weighed
from gradwright.checking.jacobian import MOST, columns_at
from gradwright.checking.sharing import gradient_after_other_draws
from gradwright.checking.trial import TimeUp, Trial, largest_entry

# How exact autograd's own gradient is, relative to its largest entry.
EXACT = {"float64": 1e-12, "float32": 1e-5, "half": 1e-2}
# What an explanation may leave unexplained, as a share of the error that it explains.
LEFT_OVER = 0.02


class Oracle(Protocol):
    """Knows the truth at the flat indices ``entries``, for any cotangents, but for ``doubt`` of its largest entry.

    ``exact``: to rounding, so that it may be asked at many points.
    """

    @property
    def entries(self) -> torch.Tensor: ...
    @property
    def doubt(self) -> float: ...
    @property
    def exact(self) -> bool: ...
    def under(self, cotangents: Sequence[torch.Tensor]) -> torch.Tensor: ...
    def elsewhere(self, point: Point, index: int) -> Oracle: ...


@dataclass(frozen=True)
class Autograd:
    """Autograd through the forward itself, where finite differences have confirmed it."""

    trial: Trial
    index: int
    entries: torch.Tensor
    exact: bool = True

    @classmethod
    def at(cls, point: Point, index: int) -> Autograd:
        return cls(point.trial, index, torch.arange(point.returned[index].numel(), device="cpu"))

    @property
    def doubt(self) -> float:
        return EXACT[self.trial.precision.name]

    def under(self, cotangents: Sequence[torch.Tensor]) -> torch.Tensor:
        return self.trial.plain_gradient(cotangents)[self.index]

    def elsewhere(self, point: Point, index: int) -> Oracle:
        return Autograd.at(point, index)


class Case:
    """The gradient ``returned`` for input ``index``, against its ``truth`` at the flat indices ``entries``."""

    def __init__(self, point: Point, index: int, oracle: Oracle | None = None) -> None:
        if oracle is None:
            oracle = columns_at(point, index) if point.plain is None else Autograd.at(point, index)
        self.point, self.index, self.oracle = point, index, oracle
        self.returned, self.entries = point.returned[index], oracle.entries
        self._tried: list[tuple[str, torch.Tensor, torch.Tensor]] = []
        if isinstance(oracle, Autograd) and point.plain is not None:
            self.truth = point.plain[index]
        else:
            self.truth = oracle.under(point.trial.cotangents)

    @classmethod
    def of(cls, point: Point, index: int, weighed: Weighed) -> Case | None:
        """The evidence for a gradient found wrong; ``None`` if the truth is known at no entry in the time there is."""
        if weighed.truth is not None:
            return cls(point, index)
        try:
            large = point.returned[index].numel() > MOST
            worst = point.worst_entries(index) if large and weighed.error < 1e-2 else []
            columns = columns_at(point, index, worst, closely=weighed.close)
        except TimeUp:
            return None
        return cls(point, index, columns) if columns.entries.numel() else None

    # --- what is known -----------------------------------------------------------------------------------------------

    @property
    def trial(self) -> Trial:
        return self.point.trial

    @property
    def cotangents(self) -> list[torch.Tensor]:
        return self.trial.cotangents

    @property
    def is_whole(self) -> bool:
        """Is the truth known at every entry?"""
        return self.entries.numel() == self.returned.numel()

    @property
    def is_real(self) -> bool:
        return self.returned.numel() == self.shape.numel()

    @cached_property
    def shape(self) -> torch.Size:
        shape: torch.Size = self.trial.original[self.index].shape
        return shape

    @property
    def part(self) -> torch.Tensor:
        """What was returned, where the truth is known."""
        return self.returned if self.is_whole else self.returned[self.entries]

    @cached_property
    def largest(self) -> float:
        return float(self.truth.abs().max()) if self.truth.numel() else 0.0

    @cached_property
    def apart(self) -> float:
        """The largest difference from the truth."""
        return float((self.part - self.truth).abs().max()) if self.truth.numel() else 0.0

    @cached_property
    def doubt(self) -> float:
        """How far the truth itself may be off, in its own units."""
        return self.oracle.doubt * max(self.largest, float(self.part.abs().max())) + self.trial.noise(self.index)

    @cached_property
    def slack(self) -> float:
        """What an explanation may leave over: a share of the error explained, and the doubt about the truth."""
        return max(LEFT_OVER * min(self.apart, max(self.largest, self.doubt)), 2 * self.doubt)

    def same(self, one: torch.Tensor, other: torch.Tensor) -> bool:
        """Equal, but for what an explanation may leave over."""
        return one.shape == other.shape and bool(((one - other).abs() <= self.slack).all())

    def pick(self, whole: torch.Tensor) -> torch.Tensor:
        """A flat vector as long as the input, where the truth is known."""
        return whole if self.is_whole else whole[self.entries]

    # --- more, on demand ---------------------------------------------------------------------------------------------

    def backward(self, cotangents: Sequence[torch.Tensor]) -> torch.Tensor:
        """What the subject returns for other cotangents: flat, whole. Cost: one gradient."""
        return self.trial.gradient(cotangents)[self.index]

    def times(self, factor: float) -> torch.Tensor:
        """What the subject returns for ``factor`` times the cotangents. Cost: one gradient."""
        found = self.backward([factor * cotangent for cotangent in self.cotangents])
        name = NEGATED if factor == -1 else SCALED_DOWN if abs(factor) < 1 else SCALED_UP
        self._tried.append((name, self.pick(found) / factor, self.truth))
        return found

    def errors(self, size: float) -> Errors:
        """The error under each kind of cotangent that has been asked for, by name; in parts of ``size``, for others
        than these in parts of what is true for them."""
        tried = [(RANDOM, self.part, self.truth), *self._tried]
        if {"other_returned", "other_truth"} <= set(vars(self)):
            tried.append((OTHER, self.pick(self.other_returned), self.other_truth))
        if "at_zero" in vars(self):
            tried.append((ZEROS, self.pick(self.at_zero), torch.zeros_like(self.truth)))
        found: dict[str, float] = {}
        for name, returned, truth in tried:
            own = size if truth is self.truth else largest_entry(truth) or size
            found[name] = max(error_of(returned, truth, own), found.get(name, 0.0))
        return tuple(found.items())

    def true_under(self, cotangents: Sequence[torch.Tensor]) -> torch.Tensor:
        """The truth for other cotangents, at ``entries``. Cost: one gradient, or none."""
        return self.oracle.under(cotangents)

    @cached_property
    def other(self) -> list[torch.Tensor]:
        """Other random cotangents."""
        return self.trial.redrawn(self.trial.seed + 17)

    @cached_property
    def other_returned(self) -> torch.Tensor:
        return self.backward(self.other)

    @cached_property
    def other_truth(self) -> torch.Tensor:
        return self.true_under(self.other)

    @cached_property
    def at_zero(self) -> torch.Tensor:
        """What the subject returns for cotangents that are zero."""
        return self.backward([torch.zeros_like(cotangent) for cotangent in self.cotangents])

    @cached_property
    def after_other_draws(self) -> torch.Tensor | None:
        """What the subject returns when random numbers were drawn between its forward and its backward."""
        found = gradient_after_other_draws(self.trial)
        return None if found is None else found[self.index]

    def under(self, cotangents: Sequence[torch.Tensor]) -> Case:
        """The same case for other cotangents."""
        trial = copy.copy(self.trial)
        trial.cotangents = list(cotangents)
        return Case(Point(trial, trial.gradient(), None), self.index, self.oracle)

    def at_values(self, values: torch.Tensor) -> Case | None:
        """The same case where the input holds other values; ``None`` where the subject refuses them."""
        args = list(self.trial.copied())
        args[self.index] = self.trial.moved(args[self.index], values - self.trial.inputs[self.index])
        return self.at(args)

    def at(self, args: list[object]) -> Case | None:
        """The same case at other arguments; ``None`` where the subject refuses them."""
        try:
            point = Point.of(self.trial.at(args))
            if not bool(torch.isfinite(point.returned[self.index]).all()):
                return None
            return Case(point, self.index, self.oracle.elsewhere(point, self.index))
        except TimeUp:
            raise
        except Exception:  # the subject is someone else's code, at inputs that it may not be meant for
            return None
