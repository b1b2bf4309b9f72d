"""What is not known of sizes is asked before the call, where a condition on them is enough."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from gradwright.doctor.rewrite.kernels.inequalities import count_of, follows
from gradwright.doctor.rewrite.kernels.integers import Integers
from gradwright.doctor.rewrite.loops.terms import Term

MOST_STEPS = 4


class UnprovedError(Exception):
    """Some index may be out of range, as far as is known."""


class Asking:
    """``asked``: sums of ``sizes`` that must not be below zero; each was met by the sizes of the run."""

    def __init__(self, it: Integers, sizes: Mapping[str, int]) -> None:
        self.it = it
        self.sizes = sizes
        self.asked: list[Term] = []

    def sure(self, goal: Term) -> bool:
        return follows(goal, [*self.it.facts, *self.asked])

    def require(self, goal: Term) -> None:
        """Asks before the call for what does not follow from what is known. Raises: UnprovedError."""
        if self.sure(goal):
            return
        candidates = [one for one in self._at_worst(goal) if one.terms and self._slack(one) >= 0]
        if candidates:
            self.asked.append(max(candidates, key=lambda one: (self._slack(one), -len(one.terms))))
        if not self.sure(goal):
            raise UnprovedError

    def _slack(self, condition: Term) -> int:
        """By how much it was met in the run."""
        return sum(count * self.sizes[str(what)] for what, count in condition.terms) + condition.constant

    def _at_worst(self, goal: Term, depth: int = 0) -> Iterator[Term]:
        """The goal with every counter at an end of its range, so that only what may be asked for is left in it."""
        inner = next(((what, count) for what, count in goal.terms if what not in self.sizes), None)
        if inner is None:
            yield goal
        elif depth < MOST_STEPS:
            what, count = inner
            for fact in reversed(self.it.facts):
                if count_of(what, fact) == (1 if count > 0 else -1):
                    yield from self._at_worst(goal.plus(fact, -abs(count)), depth + 1)


def phrased(condition: Term) -> str:
    """``condition >= 0`` as one writes it.

    >>> phrased(Term((("a.shape[0]", 1), ("n", -1)), -1))
    'a.shape[0] > n'
    """
    left, right = _sum(condition, 1), _sum(condition, -1)
    constant = -condition.constant
    if not left:
        return f"{right} <= {-constant}"
    if constant == 1:
        return f"{left} > {right or 0}"
    if not right:
        return f"{left} >= {constant}"
    return f"{left} >= {right}" + (f" {'+' if constant > 0 else '-'} {abs(constant)}" if constant else "")


def _sum(condition: Term, sign: int) -> str:
    return " + ".join(
        str(what) if abs(count) == 1 else f"{abs(count)} * {what}"
        for what, count in condition.terms
        if count * sign > 0
    )
