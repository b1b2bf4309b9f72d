"""Check 12. Is the gradient right at boundary points: zeros, ties, huge and tiny values, masks that hide everything?

A product whose backward divides by its inputs gives 0/0 at a zero, a ``where`` that guards the result and not the input
lets NaN through (pytorch/pytorch#2421), and the entries of one padded row make every weight NaN. Random tensors never
meet such points. Reported only where the forward is finite and has a gradient at that very point: differences along
several directions are smooth and linear (see ``oracles.gateaux``). At kinks, infinite slopes and jumps there is no
truth: a value there outside of what the two sides say is told as a remark, never as an error.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

import torch

from gradwright.checking.checks.base import Answer, Check
from gradwright.checking.oracles.differences import moves_faster
from gradwright.checking.oracles.gateaux import (
    Along,
    Plane,
    agrees_roughly,
    along,
    is_steady,
    plane,
    slope_of_entry,
)
from gradwright.checking.oracles.reverse import plain_gradient
from gradwright.checking.oracles.singular import has_documented_singularities
from gradwright.checking.points import BoundaryPoint, boundary_points, mask_points
from gradwright.checking.precision import quiet
from gradwright.checking.problem import Problem
from gradwright.checking.report import Finding, NotChecked
from gradwright.checking.structure import structure_of
from gradwright.checking.trial import TimeUp, Trial
from gradwright.checking.vectors import largest_apart, largest_entry

# A gradient further off than this is clearly wrong; one nearer may be rounding, which is another check's question.
CLEARLY = 5e-2
# What is too little beside the gradient of the given call to matter to anybody.
NOTABLE = 1e-3
# Outputs larger than a cube of the largest point: what is left of the digits of such numbers decides nothing.
EXPLODED = 1e24
MOST_INPUTS = {"standard": 4, "full": 32}


def run(problem: Problem) -> Iterator[Answer]:
    trial = problem.trial
    able = [index for index in problem.wanted if index not in trial.tied and trial.inputs[index].numel()]
    most = MOST_INPUTS.get(problem.level, 4)
    if len(able) > most:
        names = ", ".join(problem.names[index] for index in able[most:][:8])
        yield NotChecked(f"boundary points of {names}", f"the first {most} inputs are looked at")
    if any(output.layout is not torch.strided for output in _outputs(trial)):
        yield NotChecked("boundary points", "an output is sparse: its gradient has the pattern of its entries")
        return
    search = _Search(problem)
    if not all(bool(torch.isfinite(gradient).all()) for gradient in problem.baseline.values()):
        yield from search.at(BoundaryPoint("the call that was given", list(trial.original), -1, torch.empty(0)))
    for index in able[:most]:
        for point in boundary_points(trial, index):
            yield from search.at(point)
    for point in mask_points(trial):
        yield from search.at(point)


def _outputs(trial: Trial) -> list[torch.Tensor]:
    with quiet(trial.precision, trial.seed), torch.enable_grad():
        return trial.outputs_of(trial.call(trial.handed().args))


def _timed_gradient(trial: Trial) -> tuple[dict[int, torch.Tensor], float]:
    started = time.perf_counter()
    return trial.gradient(), time.perf_counter() - started


def _is_confirmed(trial: Trial, index: int, returned: torch.Tensor) -> bool:
    """Does autograd through the forward contradict it, too? Far out, differences step over what swings."""
    plain = plain_gradient(trial)
    if plain is None:
        return False
    return largest_apart(plain[index], returned) > CLEARLY * max(largest_entry(plain[index]), largest_entry(returned))


class _Search:
    """What has been told already, one line for each input and each kind of fault."""

    def __init__(self, problem: Problem) -> None:
        self.problem, self.trial = problem, problem.trial
        self.generator = torch.Generator().manual_seed(problem.seed + 211)
        self.told: set[tuple[int, str]] = set()
        self.usual, self.slow = 0.0, False
        self._noted: bool | None = None

    def at(self, point: BoundaryPoint) -> Iterator[Answer]:
        if self.slow and point.scaled > 1:
            yield NotChecked("huge values", "the subject grows slow there")
            return
        try:
            trial = self.trial.at(point.args)
            returned, spent = _timed_gradient(trial)
            if point.scaled > 1 and spent > 5 * self.usual + 5e-3:  # a series at -1e8 takes as many terms
                self.slow = _timed_gradient(trial)[1] > 5 * self.usual + 5e-3
        except TimeUp:
            raise
        except Exception:  # either pass may refuse what it was never meant for; what is not finite is not judgeable
            return
        self.usual = self.usual or spent
        if self.slow and point.scaled > 1:
            return
        for index in self.trial.wanted:
            if index in self.trial.tied:
                continue
            bad = (~torch.isfinite(returned[index])).nonzero().flatten()
            if bad.numel() and point.at not in (index, -1) and not bool(returned[index].isnan().any()):
                continue  # an infinite slope in another input (a target beside log 0) is what the formula says
            if bad.numel():
                yield from self._not_finite(point, trial, index, returned[index], bad)
            elif point.at in (index, -1) or not point.entries.numel():
                yield from self._value(point, trial, index, returned[index])
        self.trial.calls += trial.calls

    # --- NaN and inf -------------------------------------------------------------------------------------------------

    def _not_finite(
        self, point: BoundaryPoint, trial: Trial, index: int, returned: torch.Tensor, bad: torch.Tensor
    ) -> Iterator[Finding]:
        if (index, "not finite") in self.told:
            return
        meant = any(given.index == index and given.verdict == "surrogate" for given in self.problem.verdicts)
        if meant and not bool(returned.isnan().any()):
            return  # a slope that is infinite by the formula of the surrogate
        everywhere = torch.arange(returned.numel(), device="cpu")
        found, entry = plane(trial, index, everywhere, self.generator), int(bad[0])
        single = slope_of_entry(trial, index, entry) if isinstance(found, Plane) else None
        if single is None or self._is_documented():
            return
        self.told.add((index, "not finite"))
        yield self._finding(point, trial, index, entry, float(returned[entry]), single, "not finite")

    # --- finite, but wrong -------------------------------------------------------------------------------------------

    def _value(self, point: BoundaryPoint, trial: Trial, index: int, returned: torch.Tensor) -> Iterator[Finding]:
        entries = point.entries if point.at == index else torch.arange(returned.numel(), device="cpu")
        if (
            point.scaled < 1
            or (index, "region") in self.told
            or agrees_roughly(trial, index, returned, entries, CLEARLY / 10, self.generator)
        ):
            return  # at 1e-8 a forward meets its own eps, where even torch's gradients are not exact
        found = plane(trial, index, entries, self.generator)
        if isinstance(found, Along):
            yield from self._kink(point, trial, index, returned, entries, found)
        if not isinstance(found, Plane):
            return
        least = NOTABLE * float(self._baseline(index).abs().max())
        for direction, slope in zip(found.directions, found.slopes, strict=True):
            ours = float(returned @ direction)
            gap = abs(ours - slope.value)
            typical = max(abs(ours), abs(slope.value))
            if gap <= CLEARLY * typical + 20 * slope.error or gap <= least * float(direction.abs().max()):
                return
            if moves_faster(trial, index, direction, slope.value, gap):
                return
        if structure_of(self.trial.original[index]) is not None or not self._is_right_as_given(index):
            return
        if point.scaled > 1 and trial.output_size() > EXPLODED:
            return
        if point.scaled > 1 and not _is_confirmed(trial, index, returned):
            return
        if point.scaled > 1 and not is_steady(trial, index, returned, CLEARLY / 10, self.generator):
            return
        worst = self._worst(trial, index, returned, entries)
        if worst is None or self._is_documented():
            return
        self.told.add((index, "region"))
        entry, expected = worst
        yield self._finding(point, trial, index, entry, float(returned[entry]), expected, "region")

    def _is_documented(self) -> bool:
        if self._noted is None:
            self._noted = has_documented_singularities(self.trial)
        return self._noted

    def _baseline(self, index: int) -> torch.Tensor:
        return torch.nan_to_num(self.problem.baseline[index], 0.0, 0.0, 0.0)

    def _worst(
        self, trial: Trial, index: int, returned: torch.Tensor, entries: torch.Tensor
    ) -> tuple[int, float] | None:
        """Of a few entries, the one that is furthest off, and what it is; ``None`` if none can be pinned down."""
        few = entries[torch.linspace(0, entries.numel() - 1, min(entries.numel(), 8), device="cpu").long()]
        known = [(entry, slope_of_entry(trial, index, entry)) for entry in few.tolist()]
        apart = [(abs(float(returned[entry]) - value), entry, value) for entry, value in known if value is not None]
        if not apart:
            return None
        gap, entry, value = max(apart)
        return (entry, value) if gap > CLEARLY / 10 * max(abs(value), abs(float(returned[entry]))) else None

    def _is_right_as_given(self, index: int) -> bool:
        """Is its gradient right, and meant to be, in the call that was given? What is wrong there check 1 tells."""
        if self.problem.expect is not None or self.problem.declared:
            return False
        return any(given.index == index and given.verdict == "right" for given in self.problem.verdicts)

    # --- words -------------------------------------------------------------------------------------------------------

    def _kink(
        self,
        point: BoundaryPoint,
        trial: Trial,
        index: int,
        returned: torch.Tensor,
        entries: torch.Tensor,
        found: Along,
    ) -> Iterator[Finding]:
        """Where one entry alone is special, and at a kink: is the value outside of what its two sides say?"""
        if (
            not found.kinked
            or point.scaled != 1
            or entries.numel() != 1
            or (index, "kink") in self.told
            or not self._is_right_as_given(index)
        ):
            return
        entry = int(entries[0])
        scale = float(trial.entry_scale(index)[entry])
        direction = torch.zeros_like(returned)
        direction[entry] = scale
        one = along(trial, index, direction)
        value = float(returned[entry])
        if one is None or not one.kinked:
            return
        low, high = one.low / scale, one.high / scale
        slack = CLEARLY * max(abs(low), abs(high))
        if low - slack <= value <= high + slack:
            return
        self.told.add((index, "kink"))
        name, region = self.problem.names[index], point.told(self.problem.names)
        yield CHECK.finding(
            self.problem,
            "GW103",
            cause="region",
            severity="info",
            message=f"{self.problem.label} has a kink at {region}, and the gradient of {name} there is of neither side",
            why=f"one-sided derivatives at entry {entry}: between {low:.6g} and {high:.6g}; returned {value:.6g}",
            do="return a value between the derivatives of the two sides, or mask the point",
            index=index,
            region=region,
            returned=value,
            low=low,
            high=high,
        )

    def _finding(
        self,
        point: BoundaryPoint,
        trial: Trial,
        index: int,
        entry: int,
        returned: float,
        expected: float,
        cause: str,
    ) -> Finding:
        problem, region = self.problem, point.told(self.problem.names)
        name, tensor = problem.names[index], self.trial.original[index]
        place = entry // 2 if tensor.is_complex() else entry
        at = tuple(int(axis) for axis in torch.unravel_index(torch.tensor(place, device="cpu"), tensor.shape))
        told = "NaN or inf" if cause == "not finite" else "a wrong gradient"
        return CHECK.finding(
            problem,
            "GW103",
            cause=cause,
            message=f"{problem.label} returns {told} for {name} at a boundary: {region}",
            why=(
                f"{name}{list(at) if at else ''}: returned {returned:.6g}, is {expected:.6g} there"
                " (the forward is finite and smooth at that very point: differences along several directions add up)"
            ),
            do="write the limit for that point: guard the input of what fails (where before it), not only its result",
            index=index,
            region=region,
            at=at,
            returned=returned,
            expected=expected,
        )


CHECK = Check(12, "boundary points", "standard", {"GW103": "gradient-wrong-at-boundary"}, run)
