"""Check 1. Is the value right, for every wanted input, and if not, what is the cause?

Three oracles, arbitrated by finite differences: see ``values.judge_values``. The cause is fitted: see ``causes``.
A gradient that is declared to be a surrogate is not held to the derivative, nor one that ``expect=`` has a formula for.

pytorch/pytorch#4355 (a missing ``grad_output`` is exactly right under ``.sum()``), pytorch/pytorch#59615, and 16 of 102
public bugs: a formula, a sign, a transpose, a region.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator
from functools import partial

from gradwright.checking.agreement import held_to_expect, held_to_reference
from gradwright.checking.checks.base import Answer, Check
from gradwright.checking.mending import what_to_do
from gradwright.checking.problem import Problem
from gradwright.checking.report import Finding
from gradwright.checking.verdict import InputVerdict


def run(problem: Problem) -> Iterator[Answer]:
    reason = "" if problem.expect or problem.reference else problem.declared
    for verdict in _judged(problem):
        if isinstance(verdict, Finding):
            yield verdict
            continue
        if reason and verdict.verdict in ("wrong", "surrogate"):
            yield dataclasses.replace(verdict, verdict="surrogate", reason=reason, cotangents=())
            continue
        yield verdict
        if verdict.verdict == "wrong":
            yield finding_of(problem, verdict)


def finding_of(problem: Problem, verdict: InputVerdict) -> Finding:
    """A wrong verdict as a finding."""
    lossy = problem.reference is not None and verdict.cause in ("precision lost", "not finite")
    return CHECK.finding(
        problem,
        "GW104" if lossy else "GW101",
        cause=verdict.cause,
        message=_message(problem, verdict),
        why=_why(verdict),
        do=what_to_do(verdict),
        index=verdict.index,
        at=verdict.at,
        returned=verdict.returned,
        expected=verdict.expected,
        worst_error=verdict.error,
        factor=verdict.factor,
        oracles=verdict.oracles,
        **{name: value for name, value in verdict.details.items() if name != "factor"},
    )


def _judged(problem: Problem) -> Iterable[InputVerdict | Finding]:
    """By the formula that the caller gave, or beside the reference; else by the oracles."""
    if problem.expect is not None:
        return held_to_expect(problem)
    if problem.reference is not None:
        return held_to_reference(problem, partial(CHECK.finding, problem))
    return problem.verdicts


def _message(problem: Problem, verdict: InputVerdict) -> str:
    more = f" ({verdict.reason})" if verdict.reason else ""
    return f"{problem.label} returns a wrong gradient of {verdict.name}: {verdict.cause}{more}"


def _why(verdict: InputVerdict) -> str:
    if verdict.returned is None or verdict.expected is None:
        return verdict.reason
    at = list(verdict.at) if verdict.at else ""
    return (
        f"{verdict.name}{at}: returned {verdict.returned:.6g}, is {verdict.expected:.6g}"
        f" (relative error {verdict.error:.2g}, by {' and '.join(verdict.oracles)})"
    )


CHECK = Check(
    1,
    "value",
    "quick",
    {"GW101": "gradient-value-wrong", "GW104": "gradient-loses-precision", "GW107": "gradient-not-repeatable"},
    run,
)
