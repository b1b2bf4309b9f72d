"""Is it never negative? A loss below what a perfect prediction costs rewards errors.

A log-likelihood may be negative, and so may what has further arguments; a score that is only negated (minus the Dice
coefficient) is told as information.
"""

from __future__ import annotations

from collections.abc import Iterator

from gradwright.checking.losses.case import Case
from gradwright.checking.losses.properties.base import Answer, Property
from gradwright.checking.losses.shape import is_log_likelihood, told, where
from gradwright.checking.report import NotChecked, Severity


def run(case: Case) -> Iterator[Answer]:
    asked = case.declared.nonnegative
    if asked is False or not case.profiles or (case.upside_down and not asked):
        return
    slack = 1e-6 * case.typical
    low, profile, s = min(
        ((value, profile, s) for profile in case.profiles for s, value, _ in profile.points), key=lambda found: found[0]
    )
    if low >= -slack:
        return
    severity: Severity = "error"
    falls = any(fall.low < p.values[0] - slack for p in case.profiles for fall in p.falls)
    follows = falls and case.declared.minimum_at_target is not False and (case.at_target or 0.0) >= -slack
    if asked is None:
        if case.free:
            yield NotChecked(PROPERTY.title, "it takes further arguments, on which its least value may depend")
            return
        if not case.is_regression or follows or case.is_logarithm:
            severity = "info"
        elif case.at_target is not None and low >= case.at_target - slack:
            if is_log_likelihood(case):
                return
            severity = "warning"
    hits = [(other, at) for other in case.profiles for at, value, _ in other.points if value < -slack]
    first = min((hit for hit in hits), key=lambda hit: (not hit[0].ray.whole, hit[1]))
    hits.sort(key=lambda hit: (hit[0] is not first[0], hit[1]))
    yield PROPERTY.finding(
        case,
        "GW504",
        cause="negative",
        message=f"is negative: {told(low)} at {profile.ray.tell(s)}",
        why=f"from {where(hits)} on it is below 0" + ("; this follows from its falling there" if follows else ""),
        do="a loss that can be negative has no least value to speak of; if it is meant, say nonnegative=False",
        severity=severity,
        at=(profile.ray.at(s),),
        value=low,
    )


PROPERTY = Property(7, "never negative", "quick", {"GW504": "loss-shape-wrong"}, run, of_kinds=True)
