"""Where shrinking starts, what must hold all the while, and what call the script makes.

Most checks judge the call that was given. Two make calls of their own: for what "shapes" found the variant is made
again, and what "boundary points" found is shown at that point of the call.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Any

from gradwright.checking.counterexample.shrink import Holds, comes_back, with_args
from gradwright.checking.points import boundary_points, mask_points
from gradwright.checking.problem import Problem
from gradwright.checking.report import Finding
from gradwright.checking.values import judge_values
from gradwright.checking.variants import free_sizes, option_variants, shape_variants, small_call, unsymmetric
from gradwright.ground import clock

Args = tuple[Any, ...]


@dataclass(frozen=True)
class Start:
    """``args`` to shrink while ``holds(args)``; ``called(args)`` are those of the call that shows the fault."""

    args: Args
    holds: Holds
    called: Callable[[Args], Args]


def starting_point(problem: Problem, finding: Finding, seconds: float) -> Start:
    """See the module. Cost: for a finding of "shapes", some calls of the value check."""
    deadline = clock.now() + seconds
    if finding.check == "shapes":
        raises = "raised" in finding.evidence or finding.code == "GW203"
        holds = _raises(problem) if raises else _is_wrong(problem, finding, deadline)
        args = next((args for args in _variants(problem) if holds(args)), problem.args)
        return Start(args, holds, lambda args: args)
    if finding.check == "boundary points":
        again = comes_back(problem, finding, deadline)
        return Start(problem.args, again, lambda args: _at_point(problem, args, finding))
    return Start(problem.args, comes_back(problem, finding, deadline), lambda args: args)


def _variants(problem: Problem) -> Iterator[Args]:
    args, seed = problem.args, problem.seed
    sizes = free_sizes(problem.subject, args)
    for base in chain((args,), small_call(args, sizes, seed)):
        yield base
        found = chain(
            shape_variants(base, free_sizes(problem.subject, base), seed),
            unsymmetric(base, seed),
            option_variants(base, problem.names),
        )
        yield from (variant.args for variant in found)


def _raises(problem: Problem) -> Holds:
    """Does the forward take it, while the backward raises?"""

    def holds(args: Args) -> bool:
        try:
            trial = problem.trial.at(list(args))
        except Exception:  # the forward refuses it
            return False
        try:
            trial.gradient()
        except Exception:  # the fault itself
            return True
        return False

    return holds


def _is_wrong(problem: Problem, finding: Finding, deadline: float) -> Holds:
    def holds(args: Args) -> bool:
        verdicts = judge_values(
            problem.subject,
            args,
            [index in problem.wanted for index in range(len(args))],
            names=problem.names,
            seed=problem.seed,
            deadline=deadline,
            outputs=problem.outputs,
        )
        return any(
            verdict.verdict == "wrong" and (verdict.name, verdict.cause) == (finding.input, finding.cause)
            for verdict in verdicts
        )

    return holds


def _at_point(problem: Problem, args: Args, finding: Finding) -> Args:
    """The call at the boundary point that the finding names."""
    trial = with_args(problem, args, None).trial
    points = chain(*(boundary_points(trial, index) for index in problem.wanted), mask_points(trial))
    region = finding.evidence.get("region")
    return next((tuple(point.args) for point in points if point.told(problem.names) == region), args)
