"""Does it rise, or stay, as the error grows? Along each ray, both signs, one element or all.

A loss whose values come again and again measures an angle; one that falls but stays above what a perfect prediction
costs may be meant so (it gives outliers up), and is a warning.
"""

from __future__ import annotations

from collections.abc import Iterator

from gradwright.checking.losses.case import Case
from gradwright.checking.losses.properties.base import Answer, Property
from gradwright.checking.losses.shape import told, where
from gradwright.checking.report import Severity


def run(case: Case) -> Iterator[Answer]:
    asked = case.declared.minimum_at_target
    if asked is False or case.upside_down or (case.periodic and not asked):
        return
    # What is added for another reason (a penalty of the weights, of roughness) moves the least value a little.
    shallow = 0.0 if asked or case.recognised.of_error or not case.is_regression else 0.01 * case.typical
    falling = [(p, fall) for p in case.profiles for fall in p.falls if fall.high - fall.low > shallow]
    if not falling:
        return
    profile, fall = min(falling, key=lambda found: (not found[0].ray.whole, found[1].start))
    start = min(profile.values[:1], default=0.0)
    below = any(f.low < p.values[0] - p.slack(f.low, p.values[0]) for p, f in falling if case.is_regression)
    severity: Severity = "error" if asked or below else "warning"
    if asked is None and case.is_regression and not case.recognised.of_error and not below:
        severity = "info"
    place = where([(p, f.start) for p, f in sorted(falling, key=lambda found: found[0] is not profile)])
    yield PROPERTY.finding(
        case,
        "GW504",
        cause="falls as the error grows",
        message=f"falls as the error grows: from {told(fall.high)} at {place} to {told(fall.low)} at "
        f"{profile.ray.tell(fall.end)}",
        why=f"a perfect prediction costs {told(start)}, so that it pays to be wrong"
        if below
        else "there the gradient pushes the prediction away from the target",
        do="look at the branch that is in force there; if it is meant, say minimum_at_target=False",
        severity=severity,
        at=(profile.ray.at(fall.start), profile.ray.at(fall.end)),
        start=fall.start,
        end=fall.end,
        high=fall.high,
        low=fall.low,
    )


PROPERTY = Property(8, "not falling as the error grows", "quick", {"GW504": "loss-shape-wrong"}, run, of_kinds=True)
