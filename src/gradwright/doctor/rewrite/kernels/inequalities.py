"""Whether an inequality of integers follows from others: Fourier and Motzkin's elimination, on sums of sizes."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from math import gcd

from gradwright.doctor.rewrite.loops.terms import Term

MOST = 200


def follows(goal: Term, facts: Sequence[Term]) -> bool:
    """Whether ``goal >= 0`` wherever every fact is ``>= 0``; False too where that is too much to find out.

    It does if nothing fulfils the facts and ``goal <= -1``: what is eliminated leaves a number that is below zero.

    >>> i, n = Term((("i", 1),)), Term((("n", 1),))
    >>> inside = [i, n.plus(i, -1).plus(Term((), -1))]  # 0 <= i < n
    >>> follows(n.plus(Term((), -1)), inside), follows(n.plus(Term((), -2)), inside)
    (True, False)
    """
    rows = {_tight(row) for row in [*_about(goal, facts), goal.times(-1).plus(Term((), -1))]}
    while len(rows) <= MOST:
        if any(not row.terms and row.constant < 0 for row in rows):
            return True
        whats = {what for row in rows for what, _ in row.terms}
        if not whats:
            return False
        rows = _without(min(whats, key=lambda what: (_cost(what, rows), repr(what))), rows)
    return False


def count_of(what: Hashable, row: Term) -> int:
    """How often a size is in a sum."""
    return dict(row.terms).get(what, 0)


def _about(goal: Term, facts: Sequence[Term]) -> list[Term]:
    """The facts that have to do with the goal, if only by way of others."""
    reached, left = {what for what, _ in goal.terms}, list(facts)
    kept: list[Term] = []
    while near := [fact for fact in left if any(what in reached for what, _ in fact.terms)]:
        kept += near
        left = [fact for fact in left if fact not in near]
        reached |= {what for fact in near for what, _ in fact.terms}
    return kept


def _cost(what: Hashable, rows: set[Term]) -> int:
    counts = [count_of(what, row) for row in rows]
    return sum(count > 0 for count in counts) * sum(count < 0 for count in counts)


def _without(what: Hashable, rows: set[Term]) -> set[Term]:
    above = [row for row in rows if count_of(what, row) > 0]
    below = [row for row in rows if count_of(what, row) < 0]
    kept = {row for row in rows if not count_of(what, row)}
    for one in above:
        for other in below:
            kept.add(_tight(one.times(-count_of(what, other)).plus(other, count_of(what, one))))
    return kept


def _tight(row: Term) -> Term:
    """The same for integers: 2 i - 1 >= 0 is i - 1 >= 0."""
    common = gcd(*(count for _, count in row.terms))
    if common < 2:
        return row
    return Term(tuple((what, count // common) for what, count in row.terms), row.constant // common)
