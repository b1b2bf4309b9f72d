"""Every trial of one proof, what the original does in each, and whether a candidate does the same."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from gradwright.doctor.prove.compare import Difference, compare, equal
from gradwright.doctor.prove.specimens import (
    VALUES,
    Args,
    cut,
    describe,
    is_real_tensor,
    lengths,
    longest_axis,
    not_square,
    other_dtypes,
    other_layouts,
    other_lengths,
    same_length,
    tensors,
    with_values,
)
from gradwright.doctor.prove.trial import CotangentKind, Outcome, Trial, run

Specimen = tuple[tuple[object, ...], tuple[bool, ...]]

COTANGENTS: tuple[CotangentKind, ...] = ("expanded", "transposed", "0, inf and NaN")
MOST_MASKS = 8
UNCUT_ELEMENTS = 4096  # inputs up to this size are tried as they are, where the original refuses smaller ones


class OutOfTimeError(Exception):
    """The deadline passed before the proof was whole."""


@dataclass
class Known:
    """What the original did in one trial; ``reference`` is the same in float64."""

    trial: Trial
    original: Outcome
    reference: Outcome


@dataclass
class Harness:
    """The original on every trial in which it does not raise. ``outputs_only``: its gradients are no measure."""

    original: Any
    deadline: float
    outputs_only: bool = False
    known: list[Known] = field(default_factory=list)
    neighbourhoods: set[tuple[str, tuple[bool, ...]]] = field(default_factory=set)

    def learn(self, specimens: Sequence[Specimen]) -> str:
        """Run the original. Returns why nothing can be said, "" if something can. Raises: OutOfTimeError."""
        for position, (args, wanted) in enumerate(specimens):
            wanted = tuple(want and is_real_tensor(value) for want, value in zip(wanted, args, strict=True))
            usual = cut(args, same_length, lengths(args, same_length, longest_axis(args)))
            first = self.learn_one(Trial(usual, wanted))
            if first.raised and sum(tensor.numel() for tensor in tensors(args)) <= UNCUT_ELEMENTS:
                usual = args
                first = self.learn_one(Trial(usual, wanted))
            if first.raised:
                return f"the original raises on specimen {position}, cut to {describe(usual)}: {first.raised}"
            for trial in self._trials(args, usual, wanted):
                self.learn_one(trial)
        return "" if self.known else "there is no specimen to try it on"

    def learn_one(self, trial: Trial) -> Outcome:
        if time.monotonic() > self.deadline:
            raise OutOfTimeError
        original = run(self.original, trial)
        if original.raised:
            return original
        reference = original
        if any(is_real_tensor(value) and value.dtype is not torch.float64 for value in trial.args):
            reference = run(self.original, trial, double=True, cotangents=original.cotangents)
        self.known.append(Known(trial, original, original if reference.raised else reference))
        return original

    def _trials(self, args: Args, usual: Args, wanted: tuple[bool, ...]) -> Iterator[Trial]:
        base = self._base(usual, args, wanted)
        signature = (describe(base), wanted)
        if signature in self.neighbourhoods:
            return
        self.neighbourhoods.add(signature)
        for label, make in VALUES:
            yield Trial(with_values(base, make), wanted, label)
        normal = with_values(base, VALUES[0][1])
        for neighbour in (*other_layouts(normal), *other_dtypes(normal)):
            yield Trial(neighbour.args, wanted, neighbour.label)
        for kind in COTANGENTS:
            yield Trial(normal, wanted, cotangent=kind)
        for mask in _masks(normal, wanted):
            yield Trial(normal, mask, "wanted " + "".join("01"[one] for one in mask))
        for shape in other_lengths(args):
            yield Trial(shape.args, wanted, shape.label)
        for values in () if self.outputs_only else (normal, with_values(base, VALUES[1][1])):
            yield Trial(values, wanted, twice=True)

    def _base(self, usual: Args, args: Args, wanted: tuple[bool, ...]) -> Args:
        """Inputs whose axes have different lengths, if the original takes them."""
        for candidate in not_square(args):
            trial = Trial(with_values(candidate, VALUES[0][1]), wanted)
            if not run(self.original, trial).raised:
                return candidate
        return usual

    # --- a candidate -------------------------------------------------------------------------------------------------

    def first_difference(self, candidate: Any) -> tuple[Difference, Trial | None]:
        """The first trial in which the candidate does something else (None: none), and the largest difference."""
        worst = Difference()
        for known in self.known:
            if time.monotonic() > self.deadline:
                raise OutOfTimeError
            difference = compare(
                known.original, known.reference, self._run(candidate, known), outputs_only=self.outputs_only
            )
            if difference.told:
                return difference, known.trial
            if difference.error > worst.error:
                worst = difference
        return worst, None

    def equivalent(self, one: Any, other: Any) -> bool:
        """Whether two candidates give the same numbers in every trial, bit by bit, wherever the original has one."""
        for known in self.known:
            if time.monotonic() > self.deadline:
                raise OutOfTimeError
            if not equal(known.original, self._run(one, known), self._run(other, known)):
                return False
        return True

    def _run(self, candidate: Any, known: Known) -> Outcome:
        return run(candidate, known.trial, cotangents=known.original.cotangents)

    def tried(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(str(known.trial) for known in self.known))


def _masks(args: Args, wanted: tuple[bool, ...]) -> list[tuple[bool, ...]]:
    """Which inputs want a gradient: all, each alone, then the other ways, ``MOST_MASKS`` at most."""
    real = [index for index, value in enumerate(args) if is_real_tensor(value)]
    sets = [tuple(real), *((index,) for index in real)]
    sets += [chosen for size in range(2, len(real)) for chosen in itertools.combinations(real, size)]
    masks = [tuple(index in chosen for index in range(len(args))) for chosen in dict.fromkeys(sets) if chosen]
    return [mask for mask in masks if mask != wanted][:MOST_MASKS]
