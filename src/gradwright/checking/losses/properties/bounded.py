"""Is its gradient bounded where it should be: where the caller says so, or a reference's is? Then outliers can't rule.

Bounded by a number, no slope along a growing error may exceed it; bounded without one, the slope must stop growing.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from gradwright.checking.losses.case import Case
from gradwright.checking.losses.loss import Loss
from gradwright.checking.losses.profile import Profile
from gradwright.checking.losses.properties.base import Answer, Property
from gradwright.checking.losses.shape import told

_FAR = (1e2, 1e4, 1e6)


def run(case: Case) -> Iterator[Answer]:
    asked = case.declared.bounded_gradient
    model = next((name for name in case.references if _is_bounded(case, name)), None) if asked is None else None
    if asked is False or (asked is None and model is None) or not case.is_regression:
        return
    for profile in case.profiles:
        if not profile.ray.whole:
            continue
        slopes = [abs(profile.look(s)[1]) for s in _FAR]
        limit = float(asked) if asked is not None and asked is not True else 1.01 * slopes[0]
        worst = max(slopes, default=0.0)
        if all(map(math.isfinite, slopes)) and worst > limit * (1 + 1e-6):
            yield PROPERTY.finding(
                case,
                "GW504",
                cause="unbounded gradient",
                message=f"has a gradient that grows with the error: {told(worst)} at "
                f"{profile.ray.tell(_FAR[slopes.index(worst)])}",
                why=f"{told(slopes[0])} at {profile.ray.tell(_FAR[0])}; "
                + (f"that of {model} stays bounded" if model else f"bounded_gradient={asked} was asked for"),
                do="let its tails be straight lines, as Huber's are",
                severity="error" if asked is not None else "warning",
                at=(profile.ray.at(_FAR[0]), profile.ray.at(_FAR[1])),
                slopes=tuple(slopes),
            )
            return


def _is_bounded(case: Case, name: str) -> bool:
    loss = Loss(case.references[name], seed=case.seed, deadline=case.loss.deadline, device=case.loss.device)
    loss.dtype = case.loss.dtype
    slopes = [abs(Profile(loss, profile.ray).look(s)[1]) for profile in case.profiles[:1] for s in _FAR]
    return bool(slopes) and slopes[-1] <= 1.01 * slopes[0] and slopes[0] > 0


PROPERTY = Property(
    11, "gradient bounded where it should be", "standard", {"GW504": "loss-shape-wrong"}, run, of_kinds=True
)
