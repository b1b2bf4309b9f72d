"""Is the value finite where it can be: huge and tiny errors, scores of 1e4 and 1e8, probabilities of exactly 0 and 1?

What the value has to be there is known in two ways: the same loss in float64 gives it, or it grew no faster than a
power so far. A loss that grows as an exponential does may overflow.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import torch

from gradwright.checking.losses.case import Case
from gradwright.checking.losses.extremes import Point, extremes
from gradwright.checking.losses.properties.base import Answer, Property
from gradwright.checking.losses.shape import told

_LARGEST = {torch.float32: 3e37, torch.float64: 1e307}


def run(case: Case) -> Iterator[Answer]:
    points = list(
        extremes(
            case.recognised.kind, case.sample, of_error=case.recognised.of_error, positive=case.recognised.positive
        )
    )
    wide = {point.words: _value(case, point, case.loss.dtype) for point in points}
    told_of: set[tuple[str, bool]] = set()
    for dtype in dict.fromkeys((torch.float32, case.loss.dtype)):
        for point in points:
            value = wide[point.words] if dtype is case.loss.dtype else _value(case, point, dtype)
            if value is None or math.isfinite(value):
                continue
            expected = _expected(points, wide, point)
            # at the far end of a likelihood; or the logarithm of no error
            inherent = (point.infinite and value == math.inf) or (
                point.line in ("right", "even") and value == -math.inf
            )
            kind = ("may be infinite", True) if inherent else ("finite", False)
            if kind in told_of or (expected is None and not kind[1]):
                continue
            if expected is not None and abs(expected) > _LARGEST[dtype]:
                continue
            told_of.add(kind)
            short = str(dtype).removeprefix("torch.")
            known = f", where {told(expected)} is right" if expected is not None and math.isfinite(expected) else ""
            yield PROPERTY.finding(
                case,
                "GW502",
                cause="not finite",
                message=f"is {value} for {point.words} in {short}{known}",
                why=_why(point, dtype, wide[point.words]),
                do="use a stable form (log_softmax, logsumexp, softplus, expm1, log1p), or clamp what goes into it",
                severity="info" if case.loss.shipped or kind[1] else "error",
                at=(point.sample,),
                dtype=dtype,
                value=str(value),
                expected=expected,
            )


def _value(case: Case, point: Point, dtype: torch.dtype) -> float | None:
    """The value, ``None`` where the loss refuses: that is an answer too."""
    try:
        return case.loss.value(point.sample, dtype)
    except (RuntimeError, ValueError, TypeError, AssertionError, LookupError, ArithmeticError):
        return None


def _expected(points: list[Point], wide: dict[str, float | None], point: Point) -> float | None:
    """What the value should be about; ``None`` if it may well be infinite, or nothing is known."""
    value = wide[point.words]
    if value is not None and math.isfinite(value):
        return value
    before = [
        (other.magnitude, abs(seen))
        for other in points
        if other.line == point.line and other.magnitude < point.magnitude
        for seen in (wide[other.words],)
        if seen is not None and math.isfinite(seen)
    ]
    if not before:
        return math.nan if not point.infinite else None
    if len(before) < 2:
        return None
    (m, one), (n, other) = before[-2:]
    power = math.log(max(other, 1e-300) / max(one, 1e-300)) / math.log(n / m) if other > one else 0.0
    return other * (point.magnitude / n) ** max(power, 0.0) if power <= 6 else None


def _why(point: Point, dtype: torch.dtype, wide: float | None) -> str:
    if dtype is torch.float32 and wide is not None and math.isfinite(wide):
        return f"the same in float64 gives {told(wide)}: an intermediate result overflows, or a logarithm meets 0"
    if point.infinite:
        return "there the true value is infinite; a gradient of it is no use"
    return "an intermediate result overflows, or a logarithm, a root or a division meets 0"


PROPERTY = Property(2, "finite at the extremes", "quick", {"GW502": "loss-not-finite"}, run, of_kinds=True)
