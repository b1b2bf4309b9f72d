"""Where does the slope break? Information only: an l1 loss breaks at 0, others where their branches meet."""

from __future__ import annotations

from collections.abc import Iterator

from gradwright.checking.losses.case import Case
from gradwright.checking.losses.properties.base import Answer, Property
from gradwright.checking.losses.shape import told, where


def run(case: Case) -> Iterator[Answer]:
    jumps = [jump.at for profile in case.profiles for jump in profile.jumps]
    kinks = [
        (profile, kink)
        for profile in case.profiles
        for kink in profile.kinks
        if profile.ray.whole and kink.at > 1e-3 and not any(abs(kink.at - at) < 1e-3 for at in jumps)
    ]
    if not case.recognised.of_error or not kinks:
        return
    _, kink = min(kinks, key=lambda found: found[1].at)
    yield PROPERTY.finding(
        case,
        "GW504",
        cause="kink",
        message=f"changes its slope at once at {where([(p, k.at) for p, k in kinks])}",
        why=f"from {told(kink.before)} to {told(kink.after)}; nothing is wrong with that if it is meant",
        severity="info",
        place=kink.at,
        before=kink.before,
        after=kink.after,
    )


PROPERTY = Property(10, "slope continuous", "standard", {"GW504": "loss-shape-wrong"}, run, of_kinds=True)
