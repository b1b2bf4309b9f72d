"""Do the masks of the loss complement each other? ``near = error <= d`` beside ``far = 1 - error`` do not.

Seen in the values: beyond its threshold the loss is (1 - |e|) times something, so that it falls without bound as the
error grows, and inside that same term is added to what belongs there. Where the source is at hand the two masks are
named. The overflow that ends such a training is a symptom; this is its root.
"""

from __future__ import annotations

from collections.abc import Iterator

from gradwright.checking.losses.case import Case
from gradwright.checking.losses.profile import Profile
from gradwright.checking.losses.properties.base import Answer, Property
from gradwright.checking.losses.shape import in_words, polynomial, told
from gradwright.checking.losses.source import masks_of
from gradwright.ground.masks import Masks


def run(case: Case) -> Iterator[Answer]:
    pair = next(masks_of(case.loss.inner), None)
    profiles = [profile for profile in case.profiles if profile.ray.whole and profile.ray.side]
    seen = next((found for found in map(_one_minus_error, profiles) if found), "") if case.is_regression else ""
    if not seen and pair is None:
        return
    shown = next((found for found in map(_consequence, case.profiles) if found), "")
    if not seen and case.profiles and not shown:
        return
    told_by = [text for text in (seen, shown) if text]
    finding = PROPERTY.finding(
        case,
        "GW501",
        cause="masks",
        message=_message(pair),
        why=_why(pair, told_by),
        do="choose between the two with torch.where(condition, a, b), or complement the mask itself: "
        + (f"1 - {pair.mask}.float()" if pair and pair.mask.isidentifier() else "1 - mask.float()"),
        severity="error" if told_by else "warning",
        at=tuple(profiles[0].ray.at(s) for s in (0.0, 2.0, 20.0)) if profiles else (case.sample,),
        mask=pair.mask if pair else None,
        complement=pair.complement if pair else None,
        compared=pair.compared if pair else None,
    )
    case.explained_by = "GW501"
    yield finding


def _message(pair: Masks | None) -> str:
    if pair is None:
        return "behaves as if 1 - |e| stood where a mask's complement was meant"
    return f"multiplies by `{pair.complement}`, which does not complement the mask `{pair.mask}`"


def _why(pair: Masks | None, told_by: list[str]) -> str:
    written = (
        f"it is 1 - {pair.compared} where 1 - mask was meant: no 0 or 1, but a factor that is negative where "
        f"{pair.compared} exceeds 1; "
        if pair
        else ""
    )
    return (written + "; ".join(told_by)).rstrip("; ")


def _one_minus_error(profile: Profile) -> str:
    """Is it (1 - |e|) b(e) outside and a(e) + (1 - |e|) b(e) inside, with a and b as a loss's branches are?"""
    points = [(s, value) for s, value, _ in profile.points]
    outer = polynomial([point for point in points if point[0] > 30])
    if outer is None or len(outer) < 3:
        return ""
    beyond = [point for point in points if point[0] > 1.05]
    size = max(map(abs, outer))
    if abs(sum(outer)) > 1e-6 * size or not beyond[-1][1] < 0:  # (1 - e) divides it, and it is negative far out
        return ""
    inner = [(s, value - _at(outer, s)) for s, value in points if s < _threshold(points, outer)]
    added = polynomial(inner)
    if added is None or abs(added[0]) > 1e-6 * size or not any(added) or inner[-1][1] <= 0:
        return ""  # what is inside must be the other term and a branch that is 0 for no error
    near = _threshold(points, outer)
    broken = [found.at for found in (*profile.jumps, *profile.kinks) if abs(found.at - near) < 0.1 * max(near, 1.0)]
    at = f"{min(broken, default=near):.3g}"
    quotient = _divided(outer)
    return (
        f"for |e| > {at} it is (1 - |e|) ({in_words(quotient, '|e|')}), and inside that same term is added to "
        f"{in_words(added, '|e|')}"
    )


def _threshold(points: list[tuple[float, float]], outer: list[float]) -> float:
    """Where the values begin to be those of the outer polynomial."""
    start = points[0][0]
    for s, value in points:
        if abs(value - _at(outer, s)) > 1e-7 * max(abs(value), 1.0):
            start = s
    return start + 1e-9


def _at(coefficients: list[float], s: float) -> float:
    return sum(c * s**power for power, c in enumerate(coefficients))


def _divided(coefficients: list[float]) -> list[float]:
    """The polynomial divided by (1 - s): its coefficients are the running sums."""
    return [sum(coefficients[: power + 1]) for power in range(len(coefficients) - 1)]


def _consequence(profile: Profile) -> str:
    """What the values show of it: negative, or falling."""
    s, low = min(((s, value) for s, value, _ in profile.points), key=lambda point: point[1])
    if low < -profile.slack(*profile.values[:1], 1.0):
        first = profile.values[0]
        start = f"{told(first)} for a perfect prediction and " if first < 0 else ""
        return f"its value is {start}{told(low)} at {profile.ray.tell(s)}"
    if profile.falls:
        fall = profile.falls[0]
        return (
            f"it falls from {told(fall.high)} to {told(fall.low)} as the error grows ({profile.ray.tell(fall.start)})"
        )
    return ""


PROPERTY = Property(4, "masks complement each other", "quick", {"GW501": "masks-do-not-complement"}, run)
