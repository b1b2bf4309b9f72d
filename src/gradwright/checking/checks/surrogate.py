"""Check 2. Is a gradient that is not the derivative meant so? Then it is to be declared, once, in the code.

Asked where the forward is piecewise constant (its true gradient is zero) or the identity, and the backward is of a kind
that people write on purpose: a straight-through estimator, a reversal, a scale, a clip, a mask. Anything else is check
1's to call wrong. gradcheck fails every straight-through estimator, so those who use it skip the test altogether.
"""

from __future__ import annotations

from collections.abc import Iterator

from gradwright.checking.checks.base import Answer, Check
from gradwright.checking.problem import Problem

_HOW = {
    "piecewise constant": "its forward is piecewise constant, so the derivative is zero, and what it returns is not",
    "identity": "its forward changes nothing, and its backward does",
    "gradient held back": "gradients are held back by detach() or no_grad(), and would be its derivative otherwise",
}
_DECLARE = (
    'declare it, if it is meant: @gw.surrogate(reason="...") above the definition, or hold it to a formula: expect='
)


def run(problem: Problem) -> Iterator[Answer]:
    if problem.expect or problem.reference or problem.declared:
        return
    for verdict in problem.verdicts:
        if verdict.verdict != "surrogate":
            continue
        details = {name: value for name, value in verdict.details.items() if name != "fitted"}
        yield CHECK.finding(
            problem,
            "GW102",
            cause=verdict.details.get("fitted", "formula"),
            severity="warning",
            message=f"{problem.label} returns something else than the derivative for {verdict.name}",
            why="; ".join(filter(None, (_HOW.get(verdict.cause, verdict.cause), verdict.reason))),
            do=_DECLARE,
            index=verdict.index,
            surrogate=verdict.cause,
            oracles=verdict.oracles,
            **details,
        )


CHECK = Check(2, "surrogate", "quick", {"GW102": "surrogate-not-declared"}, run)
