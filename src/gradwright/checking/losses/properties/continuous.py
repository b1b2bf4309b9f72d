"""Is it continuous across its thresholds? A Huber without its -d/2 jumps at |e| = d; no gradient tells of that.

Jumps are found by comparing the values with the integral of the slopes, and located by halving.
"""

from __future__ import annotations

from collections.abc import Iterator

from gradwright.checking.losses.case import Case
from gradwright.checking.losses.properties.base import Answer, Property
from gradwright.checking.losses.shape import told, where


def run(case: Case) -> Iterator[Answer]:
    asked = case.declared.continuous
    jumps = [(profile, jump) for profile in case.profiles for jump in profile.jumps]
    if asked is False or not jumps:
        return
    profile, jump = min(jumps, key=lambda found: (not found[0].ray.whole, abs(found[1].at)))
    first = sorted(jumps, key=lambda found: found[0] is not profile)
    at = profile.ray.at
    yield PROPERTY.finding(
        case,
        "GW504",
        cause="jumps",
        message=f"jumps at {where([(p, j.at) for p, j in first])}, from {told(jump.before)} to {told(jump.after)}",
        why="a jump has no gradient: training does not see it, the reported loss does",
        do="let the two branches meet there (add or subtract the constant between them)",
        severity="error" if asked else "warning" if case.is_regression else "info",
        at=(at(jump.at * (1 - 1e-6)), at(jump.at * (1 + 1e-6))),
        place=jump.at,
        before=jump.before,
        after=jump.after,
    )


PROPERTY = Property(9, "continuous", "quick", {"GW504": "loss-shape-wrong"}, run, of_kinds=True)
