"""Does its gradient push the prediction towards the target?

It does not if the whole loss is upside down (a minus too many or too few), nor where a gradient made by hand points
the other way than its value rises.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from gradwright.checking.losses.case import Case
from gradwright.checking.losses.profile import Profile
from gradwright.checking.losses.properties.base import Answer, Property
from gradwright.checking.losses.shape import told, where


def run(case: Case) -> Iterator[Answer]:
    if case.declared.minimum_at_target is False or not case.profiles:
        return
    if all(map(_is_flat, (profile for profile in case.profiles if profile.ray.whole))):
        yield PROPERTY.finding(
            case,
            "GW504",
            cause="no gradient",
            message="has no gradient: its value changes with the prediction, autograd sees nothing of it",
            why="something on the way is detached, or is piecewise constant (item, numpy, round, a comparison, argmax)",
            do="compute it from the prediction by differentiable operations alone",
            at=(case.profiles[0].ray.at(1.0),),
        )
        return
    if case.upside_down:
        profile = case.profiles[0]
        yield PROPERTY.finding(
            case,
            "GW504",
            cause="wrong sign",
            message="is highest at the target: its gradient pushes every prediction away from it",
            why=f"it falls from {told(profile.values[0])} at {profile.ray.tell(profile.points[0][0])} to "
            f"{told(profile.values[-1])} at {profile.ray.tell(profile.points[-1][0])}",
            do="a minus is missing, or one too many; a critic's loss is none of this kind: say minimum_at_target=False",
            at=(profile.ray.at(profile.points[0][0]), profile.ray.at(profile.points[-1][0])),
        )
        return
    against = [(profile, s, slope) for profile in case.profiles for s, slope in _against(profile)]
    if not against:
        return
    profile, s, slope = min(against, key=lambda found: (not found[0].ray.whole, found[1]))
    yield PROPERTY.finding(
        case,
        "GW504",
        cause="wrong sign",
        message=f"rises at {where([(p, at) for p, at, _ in against])}, and its gradient there points the other way",
        why=f"along the growing error autograd gives a slope of {told(slope)}",
        do="look at the backward of what the loss is made of",
        at=(profile.ray.at(s),),
        slope=slope,
    )


def _is_flat(profile: Profile) -> bool:
    """Does the value change while the slope, if there is any, is 0 all along?"""
    changes = max(profile.values) - min(profile.values) > 100 * profile.slack(*profile.values)
    return changes and (not profile.smooth or all(slope == 0.0 for _, _, slope in profile.points))


def _against(profile: Profile) -> Iterator[tuple[float, float]]:
    """Points with a falling slope, before and after which the value rises."""
    for before, point, after in zip(profile.points, profile.points[1:], profile.points[2:], strict=False):
        s, value, slope = point
        if not math.isfinite(slope) or s < profile.ray.wrong_from:
            continue
        slack = profile.slack(before[1], value, after[1])
        if slope < 0 and value > before[1] + slack and after[1] > value + slack:
            step = (1e-4 if profile.double else 1e-2) * (1 + abs(s))
            ends = [profile.loss.attempt(profile.ray.at(at)) for at in (s - step, s + step)]
            rate = (ends[1] - ends[0]) / (2 * step)  # close by: between the points it may go up and down
            if rate * 2 * step > slack and slope < -1e-3 * rate:
                yield s, slope


PROPERTY = Property(5, "gradient towards the target", "quick", {"GW504": "loss-shape-wrong"}, run, of_kinds=True)
