"""The oracles weighed against each other, at one point.

NOTE [who decides]: finite differences arbitrate. The backward equals them while autograd through the forward differs:
a solver, right. Autograd equals them while the backward differs: wrong. They are unstable (a kink, noise): never
wrong; right only where autograd agrees with the backward.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

import torch

from gradwright.check.chance import signed
from gradwright.check.oracles.differences import Slope, slope
from gradwright.check.oracles.reverse import plain_gradient
from gradwright.check.trial import Trial
from gradwright.check.verdict import AUTOGRAD, DIFFERENCES

Outcome = Literal["right", "wrong", "unstable"]


@dataclass
class Weighed:
    """What one point says of one input. ``truth``: the whole gradient, where autograd was confirmed.

    ``inside``: at a kink, the backward lies between the one-sided derivatives. ``still``: no output moved at all.
    """

    outcome: Outcome
    oracles: tuple[str, ...] = ()
    truth: torch.Tensor | None = None
    inside: bool = True
    still: bool = False
    error: float = 0.0


@dataclass
class Point:
    """A trial with the gradients that were found there: the backward's, and autograd's where it has one."""

    trial: Trial
    returned: dict[int, torch.Tensor]
    plain: dict[int, torch.Tensor] | None
    checks: int = 0
    generator: torch.Generator = field(default_factory=torch.Generator)

    @classmethod
    def of(cls, trial: Trial) -> Point:
        generator = torch.Generator().manual_seed(trial.seed + 101)
        return cls(trial, trial.gradient(), plain_gradient(trial), generator=generator)

    def with_other_cotangents(self) -> Point:
        """The same point under other random cotangents, autograd not asked."""
        trial = copy.copy(self.trial)
        trial.cotangents = self.trial.redrawn(self.trial.seed + 17)
        return Point(trial, trial.gradient(), None)

    def with_cotangents(self, given: Sequence[torch.Tensor | None]) -> Point | None:
        """The same point under these cotangents, one per output; ``None`` if there is nothing in them."""
        trial = copy.copy(self.trial)
        kept = [item for item, active in zip(self.trial.of_tensors(given), self.trial.active, strict=True) if active]
        pairs = list(zip(kept, self.trial.cotangents, strict=True))
        trial.cotangents = [
            torch.zeros_like(old) if new is None else new.to(old).reshape(old.shape) for new, old in pairs
        ]
        if not any(bool(item.any()) for item in trial.cotangents):
            return None
        return Point(trial, trial.gradient(), None, generator=torch.Generator().manual_seed(trial.seed + 103))

    # --- one direction -----------------------------------------------------------------------------------------------

    def random_direction(self, index: int) -> torch.Tensor:
        """Signed, no entry small beside the size of that entry of the input."""
        scale = self.trial.entry_scale(index)
        return scale * signed(scale.shape, self.generator) / 4

    def size(self, index: int) -> float:
        """The largest entry of either gradient, at least what is rounding only."""
        known = [self.returned[index]] + ([] if self.plain is None else [self.plain[index]])
        return max(*(float(gradient.abs().max()) for gradient in known), self.trial.noise(index))

    def along(self, index: int, direction: torch.Tensor) -> tuple[Outcome, Slope]:
        """Does the backward agree with finite differences along ``direction``?"""
        self.checks += 1
        length = float(direction.norm())
        goal = self.trial.precision.differences * self.size(index) * length
        found = slope(self.trial, index, direction, goal)
        if found.still and not bool(self.returned[index].any()):
            return "right", found  # an input that nothing depends on
        typical = max(self.size(index) * length, abs(found.value))
        if found.kinked or not found.error <= 1e-2 * typical + goal:
            return "unstable", found
        apart = abs(found.value - float(self.returned[index] @ direction))
        allowed = goal + 5 * found.error + self.trial.noise(index) * length
        return ("right" if apart <= allowed else "wrong"), found

    # --- one input ---------------------------------------------------------------------------------------------------

    def agrees(self, index: int, other: torch.Tensor) -> bool:
        """Is the backward's gradient this one, within the precision's tolerance?"""
        apart = float((self.returned[index] - other).abs().max())
        largest = float(other.abs().max())
        return apart <= self.trial.precision.tolerance * largest + self.trial.noise(index)

    def vanishes(self, index: int) -> bool:
        """Is what the backward returned zero, but for rounding?"""
        return self.agrees(index, torch.zeros_like(self.returned[index]))

    def weigh(self, index: int) -> Weighed:
        """See NOTE [who decides]."""
        plain = None if self.plain is None else self.plain[index]
        if plain is None:
            return self._by_differences(index, 3)
        self.checks += 1
        if self.agrees(index, plain):
            weighed = self._by_differences(index, 1)
            if weighed.outcome == "right":
                weighed.oracles = (AUTOGRAD, DIFFERENCES)
            elif weighed.outcome == "unstable":
                return Weighed("right", (AUTOGRAD,), plain, still=weighed.still)
            else:
                again = self._by_differences(index, 2)
                return again if again.outcome == "wrong" else Weighed("unstable", still=again.still)
            weighed.truth = plain
            return weighed
        return self._between(index, plain)

    def _by_differences(self, index: int, directions: int) -> Weighed:
        drawn = [self.random_direction(index) for _ in range(directions)]
        tried = [self.along(index, direction) for direction in drawn]
        outcomes = [outcome for outcome, _ in tried]
        still = all(found.still for _, found in tried)
        inside = all(self._inside(index, direction, found) for direction, (_, found) in zip(drawn, tried, strict=True))
        error = max((found.error for _, found in tried), default=0.0)
        if "wrong" in outcomes and "right" not in outcomes and outcomes.count("wrong") >= min(2, directions):
            return Weighed("wrong", (DIFFERENCES,), still=still, error=error)
        if "right" in outcomes and "wrong" not in outcomes:
            return Weighed("right", (DIFFERENCES,), still=still, error=error)
        return Weighed("unstable", still=still, inside=inside, error=error)

    def _inside(self, index: int, direction: torch.Tensor, found: Slope) -> bool:
        """At a kink: does the backward lie between the one-sided derivatives? Elsewhere there is nothing to ask."""
        slack = self.trial.precision.differences * self.size(index) * float(direction.norm())
        return not found.kinked or found.low - slack <= float(self.returned[index] @ direction) <= found.high + slack

    def _between(self, index: int, plain: torch.Tensor) -> Weighed:
        """Backward and autograd differ: finite differences along the very difference tell which is true."""
        self.checks += 1
        apart = self.returned[index] - plain
        direction = apart / float((apart.abs() / self.trial.entry_scale(index)).max())
        gap = float(apart @ direction)
        found = slope(self.trial, index, direction, 0.05 * gap)
        ours, theirs = float(self.returned[index] @ direction), float(plain @ direction)
        if found.kinked or not found.error <= 0.2 * gap:
            return Weighed(
                "unstable", inside=self._inside(index, direction, found), still=found.still, error=found.error
            )
        if abs(found.value - ours) <= 0.3 * gap:
            weighed = self._by_differences(index, 2)
            return weighed if weighed.outcome != "wrong" else Weighed("unstable", still=weighed.still)
        if abs(found.value - theirs) <= 0.3 * gap:
            return Weighed("wrong", (AUTOGRAD, DIFFERENCES), plain, still=found.still)
        return Weighed("wrong", (DIFFERENCES,), still=found.still)

    def entrywise(self, index: int, most: int = 64) -> tuple[torch.Tensor, torch.Tensor]:
        """The gradient by finite differences at up to ``most`` entries: flat indices, values; unstable ones left out.

        Of a large input, those where the backward's entries are largest and a random choice. Cost: 4 calls an entry.
        """
        count = self.returned[index].numel()
        if count <= most:
            chosen = torch.arange(count, device="cpu")
        else:
            largest = self.returned[index].abs().topk(most // 2).indices
            anywhere = torch.randperm(count, generator=self.generator, device="cpu")[: most // 2]
            chosen = torch.tensor(sorted({*largest.tolist(), *anywhere.tolist()}), device="cpu")
        scale = self.trial.entry_scale(index)
        kept, values = [], []
        for entry in chosen.tolist():
            direction = torch.zeros_like(scale)
            direction[entry] = scale[entry]
            outcome, found = self.along(index, direction)
            if outcome != "unstable":
                kept.append(entry)
                values.append(found.value / float(scale[entry]))
        kept_at = torch.tensor(kept, dtype=torch.long, device="cpu")
        return kept_at, torch.tensor(values, dtype=torch.float64, device="cpu")
