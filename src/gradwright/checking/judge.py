"""The verdict on each input of one call: right, wrong with its cause, a surrogate, or not to be told."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import torch

from gradwright.checking.causes import FORMULA, Case, Cause, fit
from gradwright.checking.causes.state_kept import of_history
from gradwright.checking.cotangents import AROUND, RANDOM
from gradwright.checking.evidence import Point, Weighed
from gradwright.checking.finite import finite_derivative
from gradwright.checking.meant import fitted_to
from gradwright.checking.surrogates import (
    held_back,
    is_identity,
    is_piecewise_constant,
    is_torn,
    jumps,
    only_as_used,
    passes_rounding,
)
from gradwright.checking.trial import TimeUp
from gradwright.checking.verdict import DIFFERENCES, InputVerdict

# A difference below this may be a solver's own tolerance, unless a cause fits that no solver has: too little for wrong.
SURELY_WRONG = 2e-4
# What is returned where the derivative is nothing, as a share of the output: an iterative solver's residual is as much.
RESIDUAL = 1e-6
# A backward that calls an object again (an adjoint equation) solves it to a tolerance of its own.
APPROXIMATE = 5e-2


class Judge:
    """The verdicts at one point, with neighbouring points looked at where that one is a kink."""

    def __init__(
        self,
        point: Point,
        args: Sequence[Any],
        labels: Sequence[str],
        received: Sequence[torch.Tensor | None] | None = None,
    ) -> None:
        self.point, self.args, self.labels, self.received = point, args, labels, received
        self.neighbours: list[Point] = []

    @property
    def checks(self) -> int:
        return self.point.checks + sum(point.checks for point in self.neighbours)

    def judge(self, index: int) -> InputVerdict:
        before = self.checks
        point = self.point
        if not bool(torch.isfinite(point.returned[index]).all()):
            return self._not_finite(index, before)
        if not point.repeats(index):
            return self._unrepeatable(index, before)
        weighed = point.weigh(index)
        if weighed.outcome == "right" and weighed.still and weighed.truth is None and not point.vanishes(index):
            weighed = Weighed(
                "unstable", still=True
            )  # what is returned is not zero, only too little in these directions
        may_be_held = index not in point.trial.tied and point.trial.hidden
        if may_be_held and (weighed.still or (weighed.outcome != "right" and self._moves_nothing(index))):
            reason = f"the output depends on {', '.join(point.trial.hidden)}, which may hold this input itself"
            return self._verdict(index, "unknown", before, reason=reason)
        if weighed.outcome == "right":
            return self._right(index, weighed, before)
        if is_identity(point, index):
            return self._surrogate(index, "identity", weighed, before)
        if self._notable(index) and is_piecewise_constant(point, index):
            return self._surrogate(index, "piecewise constant", weighed, before)
        inside = weighed.inside
        if weighed.outcome == "unstable":
            point, weighed = self._beside(index, weighed)
            if weighed.outcome == "right" and inside:
                return self._right(index, weighed, before)
            if weighed.outcome != "wrong":
                return self._verdict(index, "unknown", before, reason=_why_unstable(inside))
        elif weighed.truth is None and not weighed.close and self._beside(index, weighed)[1].outcome == "right":
            # a median of equal numbers has slopes along every line, and no gradient
            reason = "finite differences disagree with the backward here, but agree with it right beside this point"
            return self._verdict(index, "unknown", before, reason=reason)
        return self._wrong(point, index, weighed, before)

    def _moves_nothing(self, index: int) -> bool:
        """Does a large step of the input move the outputs by rounding alone, as two ways to one value do?"""
        trial = self.point.trial
        moved = trial.evaluate(index, self.point.random_direction(index), 0.5)
        return all(
            float((after - was).abs().max()) <= 1e-6 * float(was.abs().max())
            for after, was in zip(moved, trial.values, strict=True)
            if was.numel()
        )

    def _not_finite(self, index: int, before: int) -> InputVerdict:
        returned = self.point.returned[index]
        found = finite_derivative(self.point.trial, index, returned)
        if found is None:
            return self._verdict(index, "unknown", before, reason="the gradient holds NaN or inf")
        entry, expected = found
        return self._verdict(
            index,
            "wrong",
            before,
            cause="not finite",
            error=float("inf"),
            cotangents=((RANDOM, float("inf")),),
            tolerance=self.point.trial.precision.differences,
            oracles=(DIFFERENCES,),
            at=self._place(index, entry),
            returned=float(returned[entry]),
            expected=expected,
        )

    def apart(self, index: int, right: InputVerdict, around: torch.Tensor) -> InputVerdict:
        """The verdict, right for a call by itself; ``around`` is what the same call returns around another one."""
        alone = self.point.returned[index]
        differs, largest = (around - alone).abs(), float(alone.abs().max())
        if float(differs.max()) <= max(1e-2 * self.point.trial.precision.tolerance, 1e-6) * largest:
            return right
        worst = int(differs.argmax())
        error = float(differs[worst]) / max(largest, 1e-300)
        return dataclasses.replace(
            right,
            verdict="wrong",
            cause="state kept between calls",
            error=error,
            cotangents=(*right.cotangents, (AROUND, error)),
            at=self._place(index, worst),
            returned=float(around[worst]),
            expected=float(alone[worst]),
            reason="right for one call alone, wrong where another one comes between forward and backward",
        )

    def _unrepeatable(self, index: int, before: int) -> InputVerdict:
        """The forward is a function of its inputs, and the same call has returned two gradients: one is wrong."""
        point = self.point
        assert point.first is not None
        history = [point.first[index], point.returned[index], *(point.trial.gradient()[index] for _ in range(5))]
        cause = of_history(history)
        truth = history[0] if point.plain is None else point.plain[index]
        off = max(history, key=lambda gradient: float((gradient - truth).abs().max()))
        worst = int((off - truth).abs().argmax())
        error = float((off - truth).abs()[worst]) / max(float(truth.abs().max()), 1e-300)
        return self._verdict(
            index,
            "wrong",
            before,
            cause=cause.name,
            details=dict(cause.details),
            error=error,
            cotangents=((RANDOM, error),),
            tolerance=point.trial.precision.tolerance,
            oracles=("the same call again",),
            at=self._place(index, worst),
            returned=float(off[worst]),
            expected=float(truth[worst]),
            reason=cause.words,
        )

    def _notable(self, index: int) -> bool:
        """Is what the backward returned more than rounding of the cotangents?"""
        largest = max((float(c.abs().max()) for c in self.point.trial.cotangents if c.numel()), default=0.0)
        return float(self.point.returned[index].abs().max()) > 1e-12 * largest

    def _beside(self, index: int, weighed: Weighed) -> tuple[Point, Weighed]:
        """The first neighbouring point that has an answer; unstable if none has."""
        for number in range(2):
            if len(self.neighbours) <= number:
                try:
                    self.neighbours.append(Point.of(self.point.trial.nudged(self.point.trial.seed + 31 * (number + 1))))
                except TimeUp:
                    raise
                except Exception:  # the forward may refuse inputs that it was never meant for
                    break
            found = self.neighbours[number].weigh(index)
            if found.outcome != "unstable":
                return self.neighbours[number], found
        return self.point, Weighed("unstable", inside=weighed.inside, still=weighed.still)

    # --- verdicts ----------------------------------------------------------------------------------------------------

    def _verdict(self, index: int, verdict: Any, before: int, **known: Any) -> InputVerdict:
        checks = self.checks - before
        return InputVerdict(index=index, name=self.labels[index], verdict=verdict, checks=checks, **known)

    def _right(self, index: int, weighed: Weighed, before: int) -> InputVerdict:
        point, error, off = self.point, 0.0, weighed.off
        plain = None if point.plain is None else point.plain[index]
        if plain is not None and weighed.truth is plain:
            apart = float((point.returned[index] - plain).abs().max())
            off = error = apart / max(float(plain.abs().max()), 1e-300) if apart else 0.0
        precision = point.trial.precision
        tolerance = precision.tolerance if weighed.truth is not None else precision.differences
        return self._verdict(
            index, "right", before, oracles=weighed.oracles, tolerance=tolerance, error=min(error, tolerance),
            cotangents=((RANDOM, min(off, tolerance)),),
        )  # fmt: skip

    def _surrogate(self, index: int, kind: str, weighed: Weighed, before: int, reason: str = "") -> InputVerdict:
        """A surrogate, if it could be one on purpose; else an error with the cause that fits."""
        oracles = weighed.oracles or ("finite differences",)
        cause, meant = (FORMULA, True) if reason else fitted_to(self.point, index, kind)
        if not meant:
            return self._named(self.point, index, weighed, before, cause)
        details = {"fitted": cause.name, **cause.details}
        return self._verdict(index, "surrogate", before, cause=kind, oracles=oracles, reason=reason, details=details)

    def _wrong(self, point: Point, index: int, weighed: Weighed, before: int) -> InputVerdict:
        if how := held_back(point, index):
            return self._surrogate(index, "gradient held back", weighed, before, f"by {how}")
        if through := passes_rounding(point, index):
            return self._surrogate(index, "piecewise constant", weighed, before, f"gradients pass through {through}")
        if reason := is_torn(self.point, index) or only_as_used(self.point, index, self.received):
            return self._verdict(index, "unknown", before, reason=reason)
        case = Case.of(point, index, weighed)
        cause = FORMULA if case is None else self._fitted(case)
        if cause.name == "formula" and (rounding := jumps(point, index)):
            reason = f"the forward jumps ({rounding}) and the backward is not its derivative"
            return self._surrogate(index, "piecewise constant", weighed, before, reason)
        return self._named(point, index, weighed, before, cause, case)

    def _fitted(self, case: Case) -> Cause:
        try:
            return fit(case)
        except TimeUp:
            return FORMULA

    def _named(
        self, point: Point, index: int, weighed: Weighed, before: int, cause: Cause, case: Case | None = None
    ) -> InputVerdict:
        """Wrong, with its cause; too little to be called wrong, where nothing fits and a solver may be at work."""
        precision = point.trial.precision
        known: dict[str, Any] = {
            "tolerance": precision.tolerance if weighed.truth is not None else precision.differences,
            "oracles": weighed.oracles or ("finite differences",),
        }
        if case is None:
            case = Case.of(point, index, weighed)
        if case is None:
            return self._verdict(index, "wrong", before, cause=cause.name, error=1.0, **known)
        apart = (case.part - case.truth).abs()
        worst = int(apart.argmax())
        largest = case.largest if case.largest > point.trial.noise(index) else float(case.part.abs().max()) or 1.0
        error = float(apart[worst]) / largest
        if weighed.truth is None and _is_residual(point, index, case):
            reason = "the derivative is zero, and what is returned is as little as a solver leaves"
            return self._verdict(index, "unknown", before, error=error, reason=reason, **known)
        if _solver_like(cause):
            if error <= precision.tolerance:
                return self._right(index, weighed, before)
            if error <= (APPROXIMATE if point.trial.tied or point.trial.hidden else SURELY_WRONG):
                reason = f"differs from the derivative by {error:.1e}, as a solver's own tolerance may"
                return self._verdict(index, "unknown", before, error=error, reason=reason, **known)
        known["tolerance"] = min(known["tolerance"], error / 2)
        return self._verdict(
            index,
            "wrong",
            before,
            cause=cause.name,
            factor=cause.factor,
            error=error,
            at=self._place(index, int(case.entries[worst])),
            returned=float(case.part[worst]),
            expected=float(case.truth[worst]),
            reason=cause.words,
            cotangents=case.errors(largest),
            details=dict(cause.details),
            **known,
        )

    def _place(self, index: int, entry: int) -> tuple[int, ...]:
        """A flat entry as an index into the input (of a complex one: of its real or imaginary part alike)."""
        tensor = self.args[index]
        entry = entry // 2 if tensor.is_complex() else entry
        return tuple(int(axis) for axis in torch.unravel_index(torch.tensor(entry, device="cpu"), tensor.shape))


def _is_residual(point: Point, index: int, case: Case) -> bool:
    """Is there nothing to return, and next to nothing returned, beside the size of the output?"""
    if float(case.truth.abs().max()) > 1e-3 * float(case.part.abs().max()):
        return False
    moved = point.returned[index].abs() * point.trial.entry_scale(index)
    return float(moved.max()) <= RESIDUAL * point.trial.output_size()


def _solver_like(cause: Cause) -> bool:
    """May an iteration that stops at a tolerance leave such an error? It is nonlinear, and mixes what it solves."""
    if cause.name == "region":
        return cause.details.get("inside") == "another value"
    return cause.name in ("formula", "nonlinear in the cotangent", "batch rows mixed")


def _why_unstable(inside: bool) -> str:
    if not inside:
        return "there is a kink here, and the gradient is not between the slopes on its two sides"
    return "finite differences are unstable here, and no other oracle agrees with the backward"
