"""Two gradients of one subject beside each other: are they the same, but for rounding? And does a difference last?

NOTE [what lasts]: a difference is only told if it comes again in whole fresh calls, and if the usual call, between and
around them, gives what it always gave. So a backward that counts its calls, alternates or draws from nowhere is not
taken for one that misreads a layout: that is another check's finding.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from gradwright.checking.problem import Problem
from gradwright.checking.recorded import Gradient, redrawn
from gradwright.checking.trial import NotJudgeable, TimeUp, Trial

# A solver's own tolerance may be this far from the gradient; where the subject calls an object again (an adjoint
# equation, solved with steps that follow the error), this far.
_SOLVED = 2e-4
_SOLVED_BY_OBJECT = 5e-2


@dataclass(frozen=True)
class Apart:
    """Where one gradient is not the other: at flat ``entry`` of input ``index``; or ``raised``: it gave none at all.

    ``error`` is relative to the size of the input's gradient under random cotangents.
    """

    index: int = -1
    entry: int = 0
    found: float = 0.0
    expected: float = 0.0
    error: float = float("inf")
    raised: str = ""
    kind: str = ""

    def at(self, problem: Problem) -> tuple[int, ...]:
        """The entry as an index into the input (of a complex one: of its real or imaginary part alike)."""
        tensor = problem.args[self.index]
        entry = self.entry // 2 if tensor.is_complex() else self.entry
        return tuple(int(axis) for axis in torch.unravel_index(torch.tensor(entry, device="cpu"), tensor.shape))

    def told(self, problem: Problem) -> str:
        """In words, with the numbers."""
        if self.raised:
            return f"raises {self.raised}"
        place = list(self.at(problem)) or ""
        return f"{problem.names[self.index]}{place}: {self.found:.6g} instead of {self.expected:.6g}"

    def evidence(self, problem: Problem) -> dict[str, Any]:
        """As plain values."""
        if self.raised:
            return {"raised": self.raised}
        return {
            "at": self.at(problem),
            "returned": self.found,
            "expected": self.expected,
            "worst_error": self.error,
        }


class Yardstick:
    """How far two gradients may be apart, per input: rounding of terms as large as those of the baseline.

    The baseline belongs to random signed cotangents, whose terms don't cancel; what cancels under other cotangents is
    rounded as the terms were. ``slack``: relative; a solver inside may be as far off as its own tolerance.
    """

    def __init__(self, trial: Trial, baseline: Gradient) -> None:
        self.trial, self.baseline = trial, baseline
        least = _SOLVED_BY_OBJECT if trial.tied or trial.hidden else _SOLVED
        self.slack = max(trial.precision.tolerance, least)
        self.sizes = {index: largest(gradient) for index, gradient in baseline.items()}
        self.noise = {index: trial.noise(index) if found.numel() else 0.0 for index, found in baseline.items()}

    def allowed(self, index: int, slack: float | None = None) -> float:
        return (self.slack if slack is None else slack) * self.sizes[index] + self.noise[index]

    def apart(
        self,
        found: Gradient,
        expected: Gradient,
        *,
        times: float = 1.0,
        slack: float | None = None,
    ) -> Apart | None:
        """The input and the entry where ``found`` is farthest from ``expected``; ``None`` if all is rounding.

        ``times``: how much larger the cotangents' terms are than the baseline's. Entries where ``expected`` or the
        baseline is not finite are not compared.
        """
        worst: Apart | None = None
        for index in found:
            if not found[index].numel():
                continue
            differs = (found[index] - expected[index]).abs_()
            if float(differs.max()) <= times * self.allowed(index, slack):
                continue  # NaN is never so small
            known = torch.isfinite(expected[index]) & torch.isfinite(self.baseline[index])
            differs = torch.where(known, differs.nan_to_num(nan=torch.inf), 0.0)
            entry = int(differs.argmax())
            gap = float(differs[entry])
            if gap > times * self.allowed(index, slack):
                error = gap / max(times * self.sizes[index], 1e-300)
                if worst is None or error > worst.error:
                    worst = Apart(index, entry, float(found[index][entry]), float(expected[index][entry]), error)
        return worst


def largest(gradient: Tensor) -> float:
    """The largest finite entry of a flat gradient; 0 if it has none."""
    finite = gradient[torch.isfinite(gradient)]
    return float(finite.abs().max()) if finite.numel() else 0.0


def by_chance(yardstick: Yardstick) -> Apart | None:
    """What random numbers in the backward change: where it differs when others are drawn.

    Cost: one call, or up to 8 where outputs are small: a mask of few entries may come again.
    """
    trial = yardstick.trial
    for number in range(1 if sum(value.numel() for value in trial.values) > 64 else 8):
        cotangents = [cotangent.clone() for cotangent in trial.cotangents]
        found = redrawn(trial, cotangents, trial.seed + 9173 + number)
        if apart := yardstick.apart(found, yardstick.baseline):
            return apart
    return None


def attempt(work: Callable[[], Apart | None]) -> Apart | None:
    """What ``work`` finds; that it raises is found, too."""
    try:
        return work()
    except (TimeUp, NotJudgeable):
        raise
    except Exception as error:  # the subject is someone else's code: it may raise anything
        return refused(error)


def refused(error: Exception) -> Apart:
    first = next(iter(str(error).splitlines()), "")
    return Apart(raised=f"{type(error).__name__}: {first}"[:300], kind=type(error).__name__)


def lasting(usual: Callable[[], Apart | None], odd: Callable[[], Apart | None]) -> Apart | None:
    """What ``odd`` finds, if it finds it twice while ``usual`` never finds anything: see NOTE [what lasts].

    Both are whole fresh calls. Cost: three usual calls, two odd ones.
    """
    if attempt(usual) or attempt(usual):
        return None
    first, second = attempt(odd), attempt(odd)
    if first is None or second is None or attempt(usual):
        return None
    return first
