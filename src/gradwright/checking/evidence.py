"""The oracles weighed against each other, at one point.

NOTE [who decides]: finite differences arbitrate. The backward equals them while autograd through the forward differs:
a solver, right. Autograd equals them while the backward differs: wrong. They are unstable (a kink, noise): never
wrong; right only where autograd agrees with the backward. What only a close look can see (``Precision.fine``) is wrong
where a close look by differences confirms autograd; without that it is the oracles' own rounding.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

import torch

from gradwright.checking.chance import signed
from gradwright.checking.narrow import narrow_dtypes, representable
from gradwright.checking.oracles.differences import Slope, moves_faster, sharp_slope, slope
from gradwright.checking.oracles.dual import dual_slope
from gradwright.checking.oracles.reverse import plain_gradient
from gradwright.checking.trial import Trial, largest_apart, largest_entry
from gradwright.checking.verdict import AUTOGRAD, DIFFERENCES, DUAL

Outcome = Literal["right", "wrong", "unstable"]


@dataclass
class Weighed:
    """What one point says of one input. ``truth``: the whole gradient, where autograd was confirmed.

    ``inside``: at a kink, the backward lies between the one-sided derivatives. ``still``: no output moved at all.
    ``close``: only the closest look by differences can see it. ``off``: how far what is right is from the
    slopes.
    """

    outcome: Outcome
    oracles: tuple[str, ...] = ()
    truth: torch.Tensor | None = None
    inside: bool = True
    still: bool = False
    error: float = 0.0
    close: bool = False
    off: float = 0.0


@dataclass
class Point:
    """A trial with the gradients that were found there: the backward's, and autograd's where it has one.

    ``first``: what the backward returned the first time that it was asked the same.
    """

    trial: Trial
    returned: dict[int, torch.Tensor]
    plain: dict[int, torch.Tensor] | None
    first: dict[int, torch.Tensor] | None = None
    narrow: bool | None = None
    checks: int = 0
    generator: torch.Generator = field(default_factory=torch.Generator)

    @classmethod
    def of(cls, trial: Trial) -> Point:
        generator = torch.Generator().manual_seed(trial.seed + 101)
        return cls(trial, trial.gradient(), plain_gradient(trial), trial.first, generator=generator)

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
        return max(*(largest_entry(gradient) for gradient in known), self.trial.noise(index))

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
        if apart <= allowed:
            return "right", found
        return ("unstable" if moves_faster(self.trial, index, direction, found.value, apart) else "wrong"), found

    def is_off_closely(self, index: int) -> bool:
        """Along two directions: is the backward off by a little that the closest look by differences can see?"""
        for _ in range(2):
            self.checks += 1
            direction = self.random_direction(index)
            value, error = sharp_slope(self.trial, index, direction)
            gap = abs(value - float(self.returned[index] @ direction))
            length = float(direction.norm())
            least = 0.03 * self.trial.precision.fine * self.size(index) + self.trial.noise(index)
            if not gap > 10 * error + least * length:
                return False
        return True

    # --- one input ---------------------------------------------------------------------------------------------------

    def repeats(self, index: int) -> bool:
        """Did the backward return the same when it was asked the same again?"""
        if self.first is None:
            return True
        apart = largest_apart(self.first[index], self.returned[index])
        largest = largest_entry(self.returned[index])
        return not apart > self.trial.precision.tolerance * largest + self.trial.noise(index)

    def agrees(self, index: int, other: torch.Tensor, *, closely: bool = False) -> bool:
        """Is the backward's gradient this one, within the precision's tolerance?"""
        apart, largest = largest_apart(self.returned[index], other), largest_entry(other)
        precision = self.trial.precision
        return apart <= (precision.fine if closely else precision.tolerance) * largest + self.trial.noise(index)

    def vanishes(self, index: int) -> bool:
        """Is what the backward returned zero, but for rounding?"""
        return self.agrees(index, torch.zeros_like(self.returned[index]))

    def weigh(self, index: int) -> Weighed:
        """See NOTE [who decides]."""
        plain = None if self.plain is None else self.plain[index]
        if plain is None:
            weighed = self._by_dual_numbers(index) or self._by_differences(index, 3)
            if weighed.outcome != "right" and self._is_right_among_symmetric(index):
                return Weighed("right", (DIFFERENCES,))
            if weighed.outcome == "right" and self._is_narrow(index) and self.is_off_closely(index):
                return Weighed("wrong", (DIFFERENCES,), close=True)
            return weighed
        self.checks += 1
        if not self.agrees(index, plain):
            return self._between(index, plain)
        if self._differs_closely(index, plain):
            return Weighed("wrong", (AUTOGRAD, DIFFERENCES), plain)
        weighed = self._by_differences(index, 1)
        if weighed.outcome == "right":
            weighed.oracles = (AUTOGRAD, DIFFERENCES)
        elif weighed.outcome == "unstable":
            return Weighed("right", (AUTOGRAD,), plain, still=weighed.still)
        else:
            if self._is_right_among_symmetric(index):
                return Weighed("right", (AUTOGRAD, DIFFERENCES), plain)
            again = self._by_differences(index, 2)
            return again if again.outcome == "wrong" else Weighed("unstable", still=again.still)
        weighed.truth = plain
        return weighed

    def _differs_closely(self, index: int, plain: torch.Tensor) -> bool:
        """Is a difference below the usual tolerance, or of a truth so small that it passes for rounding, confirmed?

        Costs nothing where the two are as equal as they can be.
        """
        if torch.equal(plain, self.returned[index]):
            return False
        apart, largest = plain - self.returned[index], largest_entry(plain)
        nothing = largest > 0 and not bool(self.returned[index].any())
        noise = self.trial.noise(index, cancelled=not nothing)
        if largest_entry(apart) <= self.trial.precision.fine * largest + noise:
            return False
        direction = apart / float((apart.abs() / self.trial.entry_scale(index)).max())
        gap = float(apart @ direction)
        value, error = sharp_slope(self.trial, index, direction)
        theirs = float(plain @ direction)
        return error <= 0.1 * gap and abs(value - theirs) <= 0.25 * gap

    def _is_narrow(self, index: int) -> bool:
        """Does the gradient look as if it came out of arithmetic narrower than float64?"""
        if self.trial.precision.floor is not torch.float64:
            return False
        if self.narrow is None:
            self.narrow = bool(narrow_dtypes(self.trial))
        return self.narrow or representable(self.returned[index], torch.float32)

    def _by_differences(self, index: int, directions: int) -> Weighed:
        """By the slopes along random directions; two that agree with the backward are enough."""
        drawn: list[torch.Tensor] = []
        tried: list[tuple[Outcome, Slope]] = []
        while len(tried) < directions and [outcome for outcome, _ in tried] != ["right"] * 2:
            drawn.append(self.random_direction(index))
            tried.append(self.along(index, drawn[-1]))
        outcomes = [outcome for outcome, _ in tried]
        if {"right", "wrong"} <= set(outcomes) and directions > 1:
            # what is wrong may add up to little along one direction; what jumps or ties is right along many
            drawn += [self.random_direction(index) for _ in range(5)]
            tried += [self.along(index, direction) for direction in drawn[-5:]]
            outcomes = [outcome for outcome, _ in tried]
            if outcomes.count("right") == 1 and outcomes.count("wrong") > 4:
                return Weighed("wrong", (DIFFERENCES,), error=max(found.error for _, found in tried))
        still = all(found.still for _, found in tried)
        inside = all(self._inside(index, direction, found) for direction, (_, found) in zip(drawn, tried, strict=True))
        error = max((found.error for _, found in tried), default=0.0)
        if "wrong" in outcomes and "right" not in outcomes and outcomes.count("wrong") >= min(2, directions):
            return Weighed("wrong", (DIFFERENCES,), still=still, error=error)
        if "right" in outcomes and "wrong" not in outcomes:
            off = max(
                self._off(index, direction, found.value) for direction, (_, found) in zip(drawn, tried, strict=True)
            )
            return Weighed("right", (DIFFERENCES,), still=still, error=error, off=off)
        return Weighed("unstable", still=still, inside=inside, error=error)

    def _off(self, index: int, direction: torch.Tensor, value: float) -> float:
        """How far the backward is from the slope ``value``, in parts of what a gradient of its size may give."""
        apart = abs(value - float(self.returned[index] @ direction))
        return apart / max(self.size(index) * float(direction.norm()), abs(value), 1e-300)

    def _is_right_among_symmetric(self, index: int) -> bool:
        """Is the input a symmetric matrix of which the forward reads one triangle, and the gradient right among those?

        A Cholesky factor or eigenvalues: moved along a direction that is not symmetric, the other triangle is not seen.
        """
        original = self.trial.original[index]
        if original.dim() < 2 or original.shape[-1] != original.shape[-2] or original.shape[-1] < 2:
            return False
        if not torch.equal(original, original.mH):
            return False
        shape = original.shape if not original.is_complex() else (*original.shape, 2)
        first = self.random_direction(index).reshape(shape)
        axes = (-1, -2) if not original.is_complex() else (-2, -3)
        triangles = []
        for keep in (torch.triu, torch.tril):
            mask = keep(
                torch.ones(original.shape[-2:], dtype=torch.float64, device="cpu"), 1 if keep is torch.triu else -1
            )
            triangles.append(first * (mask if not original.is_complex() else mask[..., None]))
        if not any(self._ignores(index, triangle.reshape(-1)) for triangle in triangles):
            return False
        for _ in range(2):
            direction = self.random_direction(index).reshape(shape)
            mirrored = direction.transpose(*axes).clone()
            if original.is_complex():
                mirrored[..., 1] *= -1
            if self.along(index, ((direction + mirrored) / 2).reshape(-1))[0] != "right":
                return False
        return True

    def _ignores(self, index: int, direction: torch.Tensor) -> bool:
        """Do the outputs stay what they are along this direction?"""
        moved = self.trial.evaluate(index, direction, 1e-3)
        return all(torch.equal(after, before) for after, before in zip(moved, self.trial.values, strict=True))

    def _inside(self, index: int, direction: torch.Tensor, found: Slope) -> bool:
        """At a kink: does the backward lie between the one-sided derivatives? Elsewhere there is nothing to ask."""
        slack = self.trial.precision.differences * self.size(index) * float(direction.norm())
        return not found.kinked or found.low - slack <= float(self.returned[index] @ direction) <= found.high + slack

    def _by_dual_numbers(self, index: int) -> Weighed | None:
        """Where only forward mode sees the forward: its slopes along two directions; ``None`` where it sees nothing."""
        worst, gap, theirs = None, 0.0, 0.0
        for _ in range(2):
            direction = self.random_direction(index)
            found = dual_slope(self.trial, index, direction)
            if found is None:
                return None
            self.checks += 1
            length = float(direction.norm())
            allowed = (self.trial.precision.tolerance * self.size(index) + self.trial.noise(index)) * length
            apart = abs(found - float(self.returned[index] @ direction))
            if apart > max(allowed, gap):
                worst, gap, theirs = direction, apart, found
        if worst is not None:
            return self._arbitrated(index, worst, theirs, DUAL, None)
        weighed = self._by_differences(index, 1)
        if weighed.outcome == "right":
            return Weighed("right", (DUAL, DIFFERENCES), still=weighed.still, error=weighed.error, off=weighed.off)
        if weighed.outcome == "unstable":
            return Weighed("right", (DUAL,), still=weighed.still)
        again = self._by_differences(index, 2)
        return again if again.outcome == "wrong" else Weighed("unstable", still=again.still)

    def _between(self, index: int, plain: torch.Tensor) -> Weighed:
        """Backward and autograd differ: finite differences along the very difference tell which is true."""
        self.checks += 1
        apart = self.returned[index] - plain
        direction = apart / float((apart.abs() / self.trial.entry_scale(index)).max())
        return self._arbitrated(index, direction, float(plain @ direction), AUTOGRAD, plain)

    def _arbitrated(
        self, index: int, direction: torch.Tensor, theirs: float, oracle: str, truth: torch.Tensor | None
    ) -> Weighed:
        """Backward and oracle differ along ``direction``, where ``theirs`` is the oracle's slope."""
        ours = float(self.returned[index] @ direction)
        gap = abs(ours - theirs)
        found = slope(self.trial, index, direction, 0.05 * gap)
        sure = 0.2 if self.trial.precision.eps < 1e-3 else 0.5  # in half no difference is closer, and none is as small
        if found.kinked or not found.error <= sure * gap:
            return Weighed(
                "unstable", inside=self._inside(index, direction, found), still=found.still, error=found.error
            )
        if abs(found.value - ours) <= 0.3 * gap:
            weighed = self._by_differences(index, 2)
            return weighed if weighed.outcome != "wrong" else Weighed("unstable", still=weighed.still)
        if abs(found.value - theirs) <= 0.3 * gap and (truth is None or self._holds_elsewhere(index, truth)):
            return Weighed("wrong", (oracle, DIFFERENCES), truth, still=found.still)
        return Weighed("wrong", (DIFFERENCES,), still=found.still)

    def _holds_elsewhere(self, index: int, truth: torch.Tensor) -> bool:
        """Where the backward is wrong, autograd may be, too (a solver): is it right along another direction?"""
        direction = self.random_direction(index)
        goal = 1e-2 * largest_entry(truth) * float(direction.norm())
        found = slope(self.trial, index, direction, goal)
        return not found.error <= goal or abs(found.value - float(truth @ direction)) <= 2 * goal

    def worst_entries(self, index: int, most: int = 2) -> list[int]:
        """Entries that differences along ever fewer entries lead to, where the backward is wrong as a whole.

        Halves the entries as long as one half disagrees. Cost: 8 calls for each halving.
        """
        found: list[int] = []
        for _ in range(most):
            left = torch.arange(self.returned[index].numel(), device="cpu")
            while left.numel() > 1:
                order = left[torch.randperm(left.numel(), generator=self.generator, device="cpu")]
                for part in (order[: left.numel() // 2], order[left.numel() // 2 :]):
                    direction = torch.zeros_like(self.returned[index])
                    direction[part] = self.random_direction(index)[part]
                    if self.along(index, direction)[0] == "wrong":
                        left = part
                        break
                else:
                    break
            if left.numel() == 1:
                found.append(int(left))
        return found
