"""Check 5. Is the gradient linear in the cotangent, as every vjp is?

``g.abs()``, ``g.clamp(-1, 1)``, ``g.sign()``, a division by ``g``'s own norm: all of them pass gradcheck, whose
cotangents are one-hot or in [0, 1). Asked are sign, sum, scale from a millionth to a billion (so that any threshold of
a clamp is passed), a cotangent of zeros, and cotangents that are zero in places: see ``laws``.

A solver that stops at an absolute tolerance is off by that much, whatever it solves: by how much the law of the sum
fails, in absolute terms, is allowed to smaller scales too. A declared surrogate may clip, and one held to a formula.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from gradwright.checking.checks.base import Answer, Check
from gradwright.checking.compared import Apart, lasting, refused
from gradwright.checking.laws import PARTS, SIGN, ZERO, Law, Laws
from gradwright.checking.problem import Problem
from gradwright.checking.report import NotChecked
from gradwright.checking.trial import NotJudgeable, TimeUp

Broken = list[tuple[str, Apart]]


def run(problem: Problem) -> Iterator[Answer]:
    laws = Laws(problem.trial, problem.baseline)
    broken: dict[int, Broken] = {}
    for name, law in laws.all():
        for index in problem.wanted:
            apart = _asked(law, index)
            if (tried := laws.tried(name, index, problem.point.plain)) is not None:
                yield tried
            if apart is None:
                continue
            if why := _declared(problem):
                yield NotChecked("linearity", why)
                return
            if apart.raised and name not in (ZERO, SIGN):
                yield NotChecked(f"linearity: {name}", f"the backward raises {apart.raised}")
                break
            if told := _lasting(laws, law, index):
                broken.setdefault(index, []).append((name, told))
            if apart.raised:
                break  # the other inputs' gradient comes from the same call
    for index, found in broken.items():
        yield _finding(problem, laws, index, found)


def _asked(law: Law, index: int) -> Apart | None:
    try:
        return law(index)
    except (TimeUp, NotJudgeable):
        raise
    except Exception as error:  # the backward is someone else's code: it may refuse what it was not made for
        return refused(error)


def _lasting(laws: Laws, law: Law, index: int) -> Apart | None:
    return lasting(laws.usual, lambda: laws.anew(law, index))


def _declared(problem: Problem) -> str:
    """Who said that this gradient is not the derivative, and so may be anything; "" if nobody did."""
    if problem.expect is not None:
        return "the gradient is held to the formula of expect="
    return f"declared a surrogate: {problem.declared}" if problem.declared else ""


def _finding(problem: Problem, laws: Laws, index: int, broken: Broken) -> Answer:
    name, apart = broken[0]
    names = [law for law, _ in broken]
    cause, do = _cause(laws, index, broken)
    return CHECK.finding(
        problem,
        "GW105",
        cause=cause,
        message=f"the gradient of {problem.names[index]} is not linear in the cotangent of {problem.label}: {cause}",
        why=f"{name} does not hold: {apart.told(problem)}"
        + (f"; nor does {', '.join(names[1:])}" if names[1:] else ""),
        do=do,
        index=index,
        laws=tuple(names),
        **apart.evidence(problem),
    )


def _cause(laws: Laws, index: int, broken: Broken) -> tuple[str, str]:
    """What fits, and how to mend it."""
    names, (name, apart) = {law for law, _ in broken}, broken[0]
    if apart.raised:
        return "nonlinear in the cotangent", "a cotangent may be all zero, and of either sign: return a gradient for it"
    if names <= {ZERO, PARTS} and not any(math.isfinite(found.found) for _, found in broken):
        return "not finite", "don't divide by the cotangent or by its norm, nor take its logarithm"
    if name == ZERO and math.isfinite(apart.found):
        if laws.is_deaf(index):
            return "missing grad_output", "multiply by grad_output"
        if laws.is_offset(index):
            return "additive offset", "add nothing to the gradient that is not multiplied by the cotangent"
    return (
        "nonlinear in the cotangent",
        "multiply the cotangent by what does not depend on it: no abs, clamp or norm of it",
    )


CHECK = Check(5, "linearity", "standard", {"GW105": "gradient-nonlinear-in-cotangent"}, run)
