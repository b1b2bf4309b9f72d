"""Is the gradient right? Every wanted input of one call is judged."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import torch

from gradwright.check.causes import Cause, fit
from gradwright.check.context import input_names, is_function
from gradwright.check.evidence import Point, Weighed
from gradwright.check.oracles.differences import slope
from gradwright.check.sharing import gradient_around_another
from gradwright.check.surrogates import (
    factorisations,
    held_back,
    is_identity,
    is_piecewise_constant,
    is_torn,
    jumps,
    passes_rounding,
)
from gradwright.check.trial import NotJudgeable, TimeUp, settle
from gradwright.check.verdict import InputVerdict

# A difference below this that fits no simple cause may be a solver's own tolerance: too little to be called wrong.
SURELY_WRONG = 2e-4
# A backward that calls an object again (an adjoint equation) solves it to a tolerance of its own.
APPROXIMATE = 5e-2


def judge_values(
    subject: Any,
    args: Sequence[Any],
    wanted: Sequence[bool],
    *,
    names: Sequence[str] | None = None,
    seed: int = 0,
    deadline: float | None = None,
    outputs: Sequence[bool] | None = None,
    received: Sequence[torch.Tensor | None] | None = None,
    nested: bool = False,
) -> tuple[InputVerdict, ...]:
    """Judge the gradient of ``subject`` with respect to each wanted input, at ``args``.

    ``subject``: a subclass of ``autograd.Function``, or any callable; ``args``: the positional arguments of one call
    (never changed); ``wanted``: one bool per argument; ``names``: names of the arguments, instead of the signature's;
    ``deadline``: a value of ``time.monotonic()`` after which what is left is "unknown"; ``outputs``: one bool per
    output (of a Function's, tensor or not), which of them receive cotangents where the subject is used (``None``: all
    that can); ``received``: those cotangents themselves, for subjects that only some cotangents make sense to;
    ``nested``: the Function is used again between a forward of it and its backward, so what two calls share is looked
    for too. Returns one verdict per wanted input, in order. Never raises what the subject raises: that makes the
    verdict "unknown", with the reason.

    Shapes: any. Dtypes: judged in float64 where the subject takes it. Cost: about 10 calls of the subject, and 5 to 300
    more per input, the most where something is wrong and autograd has nothing to say.

    >>> class Halved(torch.autograd.Function):
    ...     @staticmethod
    ...     def forward(ctx, x):
    ...         ctx.save_for_backward(x)
    ...         return x**2
    ...     @staticmethod
    ...     def backward(ctx, cotangent):
    ...         (x,) = ctx.saved_tensors
    ...         return cotangent * x
    >>> (verdict,) = judge_values(Halved, [torch.tensor([1.0, -2.0, 3.0])], [True])
    >>> verdict.name, verdict.verdict, verdict.cause, round(verdict.factor, 6)
    ('x', 'wrong', 'factor', 0.5)
    """
    labels = tuple(names) if names is not None else input_names(subject, len(args))
    asked = [index for index, want in enumerate(wanted) if want]
    verdicts: dict[int, InputVerdict] = {}

    def unknown(index: int, reason: str, checks: int = 0) -> None:
        verdicts[index] = InputVerdict(index=index, name=labels[index], verdict="unknown", reason=reason, checks=checks)

    for index in asked:
        if reason := _unfit(args[index]):
            unknown(index, reason)
    fit_inputs = [index for index in asked if index not in verdicts]
    able = [index for index in asked if isinstance(args[index], torch.Tensor) and _differentiable(args[index])]
    try:
        if fit_inputs:
            point = Point.of(settle(subject, args, able, seed=seed, deadline=deadline, used=outputs))
            judge = _Judge(point, args, labels, received)
            around = gradient_around_another(point.trial) if nested and is_function(subject) else None
    except TimeUp:
        for index in fit_inputs:
            unknown(index, "time limit")
        fit_inputs = []
    except Exception as error:  # the subject is someone else's code
        for index in fit_inputs:
            unknown(index, _told(error))
        fit_inputs = []
    for index in fit_inputs:
        try:
            verdicts[index] = judge.judge(index)
            if around is not None and verdicts[index].verdict == "right":
                verdicts[index] = judge.apart(index, verdicts[index], around[index])
        except TimeUp:
            unknown(index, "time limit", judge.checks)
        except Exception as error:
            unknown(index, _told(error), judge.checks)
    return tuple(verdicts[index] for index in asked)


def _differentiable(tensor: torch.Tensor) -> bool:
    return tensor.is_floating_point() or tensor.is_complex()


def _unfit(value: Any) -> str:
    """Why an argument has no gradient to judge, "" if it may have one."""
    if not isinstance(value, torch.Tensor):
        return "not a tensor"
    if not _differentiable(value):
        return f"{value.dtype} has no gradient"
    if value.layout is not torch.strided:
        return f"layout {value.layout}"
    if value.numel() == 0:
        return "empty"
    if not bool(torch.isfinite(value).all()):
        return "the input holds NaN or inf"
    if float(value.detach().abs().max()) > 1e150:
        return "the input holds numbers whose squares overflow"
    return ""


def _told(error: Exception) -> str:
    if isinstance(error, NotJudgeable):
        return str(error)
    return f"{type(error).__name__}: {next(iter(str(error).splitlines()), '')}"


class _Judge:
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
            return self._verdict(index, "unknown", before, reason="the gradient holds NaN or inf")
        weighed = point.weigh(index)
        if weighed.outcome == "right" and weighed.still and weighed.truth is None and not point.vanishes(index):
            weighed = Weighed(
                "unstable", still=True
            )  # what is returned is not zero, only too little in these directions
        if weighed.still and index not in point.trial.tied and point.trial.hidden:
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
        elif weighed.truth is None and self._beside(index, weighed)[1].outcome == "right":
            # a median of equal numbers has slopes along every line, and no gradient
            reason = "finite differences disagree with the backward here, but agree with it right beside this point"
            return self._verdict(index, "unknown", before, reason=reason)
        return self._wrong(point, index, weighed, before)

    def apart(self, index: int, right: InputVerdict, around: torch.Tensor) -> InputVerdict:
        """The verdict, right for a call by itself; ``around`` is what the same call returns around another one."""
        alone = self.point.returned[index]
        differs, largest = (around - alone).abs(), float(alone.abs().max())
        if float(differs.max()) <= max(1e-2 * self.point.trial.precision.tolerance, 1e-6) * largest:
            return right
        worst = int(differs.argmax())
        return dataclasses.replace(
            right,
            verdict="wrong",
            cause="another call's",
            error=float(differs[worst]) / max(largest, 1e-300),
            at=self._place(index, worst),
            returned=float(around[worst]),
            expected=float(alone[worst]),
            reason="right for one call alone, wrong where another one comes between forward and backward",
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
        point, error = self.point, 0.0
        if weighed.truth is not None:
            apart = float((point.returned[index] - weighed.truth).abs().max()) if self._same(weighed) else 0.0
            error = apart / max(float(weighed.truth.abs().max()), 1e-300) if apart else 0.0
        precision = point.trial.precision
        tolerance = precision.tolerance if weighed.truth is not None else precision.differences
        return self._verdict(
            index, "right", before, oracles=weighed.oracles, tolerance=tolerance, error=min(error, tolerance)
        )

    def _same(self, weighed: Weighed) -> bool:
        plain = self.point.plain
        return plain is not None and any(weighed.truth is gradient for gradient in plain.values())

    def _surrogate(self, index: int, cause: str, weighed: Weighed, before: int, reason: str = "") -> InputVerdict:
        oracles = weighed.oracles or ("finite differences",)
        return self._verdict(index, "surrogate", before, cause=cause, oracles=oracles, reason=reason)

    def _wrong(self, point: Point, index: int, weighed: Weighed, before: int) -> InputVerdict:
        returned, precision = point.returned[index], point.trial.precision
        if how := held_back(point, index):
            return self._surrogate(index, "gradient held back", weighed, before, f"by {how}")
        if through := passes_rounding(point, index):
            return self._surrogate(index, "piecewise constant", weighed, before, f"gradients pass through {through}")
        if reason := is_torn(self.point, index) or self._only_as_used(self.point, index):
            return self._verdict(index, "unknown", before, reason=reason)
        entries: torch.Tensor | None = None
        truth = weighed.truth
        slack = precision.tolerance
        if truth is None:
            try:
                entries, truth = point.entrywise(index)
            except TimeUp:
                truth = torch.empty(0, dtype=torch.float64, device="cpu")
            slack = 10 * precision.differences
        tolerance = precision.tolerance if entries is None else precision.differences
        known: dict[str, Any] = {"tolerance": tolerance, "oracles": weighed.oracles}
        if not truth.numel():
            return self._verdict(index, "wrong", before, cause="formula", error=1.0, **known)
        part = returned if entries is None else returned[entries]
        apart = (part - truth).abs()
        worst = int(apart.argmax())
        largest = float(truth.abs().max())
        error = float(apart[worst]) / (
            largest if largest > point.trial.noise(index) else float(part.abs().max()) or 1.0
        )
        cause = self._cause(point, index, truth, entries, slack)
        if cause.name == "formula":
            if rounding := jumps(point, index):
                reason = f"the forward jumps ({rounding}) and the backward is not its derivative"
                return self._surrogate(index, "piecewise constant", weighed, before, reason)
            if error <= (APPROXIMATE if point.trial.tied or point.trial.hidden else SURELY_WRONG):
                reason = f"differs from the derivative by {error:.1e}, as a solver's own tolerance may"
                return self._verdict(index, "unknown", before, error=error, reason=reason, **known)
        entry = worst if entries is None else int(entries[worst])
        return self._verdict(
            index,
            "wrong",
            before,
            cause=cause.name,
            factor=cause.factor,
            error=error,
            at=self._place(index, entry),
            returned=float(part[worst]),
            expected=float(truth[worst]),
            reason=self._ignored(point, index),
            **known,
        )

    def _cause(
        self, point: Point, index: int, truth: torch.Tensor, entries: torch.Tensor | None, slack: float
    ) -> Cause:
        try:
            other = point.with_other_cotangents()
        except TimeUp:
            raise
        except Exception:  # a backward that refuses other cotangents leaves the cause at what one draw shows
            return Cause("formula")

        def holds(factor: float) -> bool:
            """Does the factor hold beside this point, under other cotangents?"""
            try:
                beside = Point.of(point.trial.nudged(point.trial.seed + 7)).with_other_cotangents()
            except TimeUp:
                raise
            except Exception:  # no neighbour to ask
                beside = other
            direction = beside.random_direction(index)
            goal = beside.trial.precision.differences * beside.size(index) * float(direction.norm())
            found = slope(beside.trial, index, direction, goal)
            apart = abs(float(beside.returned[index] @ direction) - factor * found.value)
            return apart <= abs(factor) * (10 * goal + 5 * found.error) + 10 * goal

        shape = tuple(self.args[index].shape)
        return fit(point.returned[index], truth, entries, shape, other.returned[index], slack, holds)

    def _only_as_used(self, point: Point, index: int) -> str:
        """Right for the cotangents that the run gave it, where the forward leaves open which of many bases it returns:
        a cotangent that sees the basis itself asks what has no answer. In words; "" if not so."""
        factors = factorisations(point)
        if not factors or self.received is None:
            return ""
        try:
            used = point.with_cotangents(self.received)
            as_used = used.weigh(index) if used is not None else None
        except TimeUp:
            raise
        except Exception:  # cotangents of another shape: the specimen was tried at another size
            return ""
        if as_used is None or as_used.outcome != "right":
            return ""
        return f"right for the cotangents of the run; others see the basis that {factors} happens to return"

    def _ignored(self, point: Point, index: int) -> str:
        """Which of several outputs have a cotangent that the backward makes no use of, in words; "" if none."""
        trial, ignored = point.trial, []
        others = trial.redrawn(trial.seed + 23)
        if len(others) < 2:
            return ""
        shifted = trial.evaluate(index, 1e-2 * point.random_direction(index))
        positions = [position for position, active in enumerate(trial.active) if active]
        for number, position in enumerate(positions):
            if torch.equal(shifted[number], trial.values[number]):
                continue  # an output that does not depend on this input has nothing to say to it
            mixed = [*trial.cotangents]
            mixed[number] = others[number]
            if torch.equal(trial.gradient(mixed)[index], point.returned[index]):
                ignored.append(str(position))
        return f"the cotangent of output {', '.join(ignored)} is ignored" if ignored else ""

    def _place(self, index: int, entry: int) -> tuple[int, ...]:
        """A flat entry as an index into the input (of a complex one: of its real or imaginary part alike)."""
        tensor = self.args[index]
        entry = entry // 2 if tensor.is_complex() else entry
        return tuple(int(axis) for axis in torch.unravel_index(torch.tensor(entry, device="cpu"), tensor.shape))


def _why_unstable(inside: bool) -> str:
    if not inside:
        return "there is a kink here, and the gradient is not between the slopes on its two sides"
    return "finite differences are unstable here, and no other oracle agrees with the backward"
