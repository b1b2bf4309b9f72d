"""Held to what the caller names as the truth: ``expect=``, a formula for the gradient, or ``reference=``, a twin."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch

from gradwright.checking.causes import FORMULA, Case, Cause, fit
from gradwright.checking.cotangents import RANDOM
from gradwright.checking.evidence import Point
from gradwright.checking.oracles.expectation import Expectation, Expected
from gradwright.checking.oracles.formula import Nest, twin_of
from gradwright.checking.oracles.reference import Referenced, twin_trial
from gradwright.checking.problem import Problem
from gradwright.checking.report import Finding
from gradwright.checking.rounded import Compared, compared, jogged, precision_as_given, spread
from gradwright.checking.trial import HALF, NotJudgeable, TimeUp, Trial, largest_apart, largest_entry
from gradwright.checking.verdict import EXPECTED, REFERENCE, InputVerdict

# Causes that rounding alone may look like, so that they say nothing where only little is wrong.
_VAGUE = ("formula", "nonlinear in the cotangent", "batch rows mixed", "region", "precision lost", "nondeterminism")


def held_to_expect(problem: Problem) -> Iterator[InputVerdict]:
    """A verdict for each wanted input: is its gradient what the formula says? Cost: one call of it, more where not.

    Raises: Misfit; NotJudgeable; TimeUp.
    """
    assert problem.expect is not None
    nest = Nest(problem.inputs, problem.args)
    expectation = Expectation(problem.expect, nest, problem.names, problem.wanted)
    point, truths = problem.point, expectation.gradients(problem.trial)
    for index in problem.wanted:
        if index not in truths:
            yield _unknown(problem, index, "expect= is a formula of the inputs, and this is none")
            continue
        returned, truth = point.returned[index], truths[index]
        tolerance = point.trial.precision.tolerance
        if not bool(torch.isfinite(returned).all()):
            yield _unknown(problem, index, "the gradient holds NaN or inf")
        elif point.agrees(index, truth):
            error = largest_apart(returned, truth) / (largest_entry(truth) or 1.0)
            yield InputVerdict(
                index=index, name=problem.names[index], verdict="right", oracles=(EXPECTED,), checks=1,
                tolerance=tolerance, error=min(error, tolerance), reason="held to expect=",
                cotangents=((RANDOM, min(error, tolerance)),),
            )  # fmt: skip
        else:
            entries = torch.arange(returned.numel(), device="cpu")
            cause = _fitted(lambda: Case(point, index, Expected(expectation, point.trial, index, entries)))  # noqa: B023
            yield _wrong(problem, index, returned, truth, cause, EXPECTED, tolerance)


def held_to_reference(problem: Problem, finding: Callable[..., Finding]) -> Iterator[InputVerdict | Finding]:
    """A verdict for each wanted input, and findings about the value: do they agree with the twin's in float64?

    The subject runs in the dtypes that it was given. ``finding`` makes a finding of the check that asks. Cost: about 6
    calls and 4 gradients of the subject, 10 of the twin.
    Raises: Misfit; NotJudgeable; TimeUp.
    """
    assert problem.reference is not None
    nest = Nest(problem.inputs, problem.args)
    twin, reached = twin_of(problem.reference, nest, problem.args, problem.names)
    judged = tuple(index for index in problem.wanted if index in reached)
    precision = precision_as_given(problem.args)
    subject = Trial(
        problem.subject, problem.args, problem.wanted, precision,
        seed=problem.seed, deadline=problem.deadline, used=problem.outputs,
    )  # fmt: skip
    for index in problem.wanted:
        if index not in judged:
            yield _unknown(problem, index, "reference= is a function of the inputs, and this is none")
    if not judged:
        return
    truth = twin_trial(twin, subject, judged)
    native = twin_trial(twin, subject, judged, precision)
    yield from _values(problem, finding, subject, truth, native)
    truths, natives = truth.gradient(), native.gradient()
    runs = [subject.gradient() for _ in range(3)]
    moved = spread(truth, truths, precision.eps)
    for index in judged:
        row, most = _row(problem.args[index]), torch.finfo(problem.args[index].dtype).max
        results = [
            compared(run[index], truths[index], natives[index], moved[index], precision.eps, row, most=most)
            for run in runs
        ]
        best = min(results, key=lambda result: (not result.finite, result.error - result.allowed))
        yield from _repeats(problem, finding, index, [run[index] for run in runs], results, best)
        if best.ok:
            yield InputVerdict(
                index=index, name=problem.names[index], verdict="right", oracles=(REFERENCE,), checks=len(runs),
                error=best.error, tolerance=best.allowed, reason="compared with reference=",
                cotangents=((RANDOM, best.error),),
            )  # fmt: skip
            continue
        returned = runs[results.index(best)][index]
        cause = _cause_beside(problem, subject, truth, index, returned, best)
        verdict = _wrong(problem, index, returned, truths[index], cause, REFERENCE, best.allowed, best)
        yield verdict


def _values(
    problem: Problem, finding: Callable[..., Finding], subject: Trial, truth: Trial, native: Trial
) -> Iterator[Finding]:
    """Are the outputs themselves the twin's?"""
    eps = subject.precision.eps
    near_by = jogged(truth, eps, torch.Generator().manual_seed(truth.seed + 13)).evaluate()
    for number, (found, true, twin, near) in enumerate(
        zip(subject.values, truth.values, native.values, near_by, strict=True)
    ):
        result = compared(found, true, twin, (near - true).abs(), eps, _row(subject.cotangents[number]))
        if result.ok:
            continue
        which = f"output {number}" if len(subject.values) > 1 else "the output"
        factor = float(true @ found) / (float(true @ true) or 1.0)
        slack = abs(factor) * result.allowed * largest_entry(true)
        constant = factor != 0 and largest_apart(found, factor * true) <= slack
        yield finding(
            "GW101",
            cause=("sign" if abs(factor + 1) < result.allowed else "constant factor") if constant else "formula",
            message=f"{problem.label} returns another value than its reference: {which} differs",
            why=f"entry {result.worst}: {float(found[result.worst]):.6g}, the reference in float64"
            f" {float(true[result.worst]):.6g} (relative error {result.error:.2g}; the reference itself, in that dtype,"
            f" is off by {result.native:.2g})",
            do="make the forward compute what the reference does, or give the reference that it was written after",
            output=number,
            worst_error=result.error,
            allowed=result.allowed,
        )


def _repeats(
    problem: Problem,
    finding: Callable[..., Finding],
    index: int,
    runs: list[torch.Tensor],
    results: list[Compared],
    best: Compared,
) -> Iterator[Finding]:
    """What changes from run to run: an info where rounding explains it (atomics), a fault where it does not."""
    apart = max(largest_apart(run, runs[0]) for run in runs[1:])
    if not apart > 0:
        return
    share = apart / (largest_entry(runs[0]) or 1.0)
    explained = not best.ok or all(result.ok for result in results)
    yield finding(
        "GW107",
        cause="nondeterminism",
        severity="info" if explained else "error",
        message=f"{problem.label} returns another gradient of {problem.names[index]} each time",
        why=f"three runs differ by {share:.2g} of the largest entry; rounding explains {best.allowed:.2g}",
        do="" if explained else "look for a race: a sum read before it is complete, an accumulator that is not zeroed",
        index=index,
        run_to_run=share,
    )


def _cause_beside(
    problem: Problem, subject: Trial, truth: Trial, index: int, returned: torch.Tensor, result: Compared
) -> Cause:
    """Why it differs. Fitted in float64 where the subject takes that; right there, it is precision that is lost."""
    if not result.finite:
        return Cause("not finite", words="the reference is finite there, in the same dtype")
    entries = torch.arange(returned.numel(), device="cpu")
    lost = Cause("precision lost", words=f"the reference, in the same dtype, is off by {result.native:.1e}")
    try:
        wide = problem.point
    except (NotJudgeable, TimeUp):
        wide = None
    if wide is not None and wide.trial.precision.eps < subject.precision.eps:
        oracle = Referenced(truth, index, entries, wide.trial.precision.tolerance / 10).elsewhere(wide, index)
        true = oracle.under(wide.trial.cotangents)
        apart = largest_apart(wide.returned[index], true)
        if apart <= min(wide.trial.precision.tolerance, result.error / 10) * largest_entry(true):
            return lost
        return _fitted(lambda: Case(wide, index, oracle))
    point = Point(subject, {index: returned}, None)
    cause = _fitted(lambda: Case(point, index, Referenced(truth, index, entries, result.allowed)))
    if cause.name == "constant factor" and cause.factor is not None and abs(cause.factor + 1) <= result.allowed:
        return Cause("sign", -1.0)
    if cause.name in _VAGUE and result.error <= (0.3 if subject.precision.name == HALF.name else 1e-2):
        return lost
    return cause


def _fitted(case: Callable[[], Case]) -> Cause:
    try:
        return fit(case())
    except TimeUp:
        raise
    except Exception:  # the subject is someone else's code, asked more than it was called for
        return FORMULA


def _wrong(
    problem: Problem,
    index: int,
    returned: torch.Tensor,
    truth: torch.Tensor,
    cause: Cause,
    oracle: str,
    tolerance: float,
    result: Compared | None = None,
) -> InputVerdict:
    worst = result.worst if result is not None else int((returned - truth).abs().argmax())
    largest = largest_entry(truth) or largest_entry(returned) or 1.0
    error = abs(float(returned[worst]) - float(truth[worst])) / largest
    details: dict[str, Any] = dict(cause.details)
    if result is not None:
        details |= {"allowed": result.allowed, "native_error": result.native}
    return InputVerdict(
        index=index, name=problem.names[index], verdict="wrong", cause=cause.name, factor=cause.factor,
        error=error, cotangents=((RANDOM, error),), tolerance=tolerance, oracles=(oracle,),
        at=_place(problem.args[index], worst), returned=float(returned[worst]), expected=float(truth[worst]),
        reason=cause.words, details=details, checks=1,
    )  # fmt: skip


def _unknown(problem: Problem, index: int, reason: str) -> InputVerdict:
    return InputVerdict(index=index, name=problem.names[index], verdict="unknown", reason=reason)


def _row(tensor: torch.Tensor) -> int:
    """How many real numbers stand side by side in the last axis."""
    return (tensor.shape[-1] if tensor.ndim else 1) * (2 if tensor.is_complex() else 1)


def _place(tensor: torch.Tensor, entry: int) -> tuple[int, ...]:
    entry = entry // 2 if tensor.is_complex() else entry
    return tuple(int(axis) for axis in torch.unravel_index(torch.tensor(entry, device="cpu"), tensor.shape))
