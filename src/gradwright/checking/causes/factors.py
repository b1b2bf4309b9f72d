"""A gradient that is a constant times the truth, here and elsewhere: what sign, sum for mean and a factor share."""

from __future__ import annotations

import torch

from gradwright.checking.causes.case import Case
from gradwright.checking.evidence import Point
from gradwright.checking.oracles.differences import slope
from gradwright.checking.trial import TimeUp


def fitted(case: Case) -> float | None:
    """What was returned divided by the truth, if that is one number at every entry; ``None`` otherwise."""
    size = float(case.truth @ case.truth)
    if not size:
        return None
    factor = float(case.truth @ case.part) / size
    if not factor or not bool(((case.part - factor * case.truth).abs() <= _allowed(case, factor)).all()):
        return None
    return factor


def _allowed(case: Case, factor: float) -> float:
    return max(case.slack, 2 * case.doubt * max(abs(factor), 1.0))


def holds(case: Case, factor: float) -> bool:
    """Does the factor hold for other cotangents, and where the input holds other values?

    One number always has some factor; so has a norm that was forgotten. The entries are moved by some per cent, all to
    the same side, where the forward takes that; otherwise by a thousandth.
    """
    if not bool(
        ((case.pick(case.other_returned) - factor * case.other_truth).abs() <= 4 * _allowed(case, factor)).all()
    ):
        return False
    if case.oracle.exact:
        here = case.trial.inputs[case.index]
        for moved in (1.05 * here, 0.93 * here + 0.01 * here.abs().mean()):
            beside = case.at_values(moved)
            if beside is not None and beside.truth.any():
                found = float(beside.truth @ beside.part) / float(beside.truth @ beside.truth)
                if abs(found - factor) > _closeness(case) * max(1.0, abs(factor)):
                    return False
        return True
    return _holds_along(case, factor)


def _closeness(case: Case) -> float:
    """How closely two factors agree that are the same: well within the error that the factor explains."""
    return max(
        1e-9, 0.05 * min(1.0, case.apart / max(case.largest, 1e-300)), 10 * case.doubt / max(case.largest, 1e-300)
    )


def _holds_along(case: Case, factor: float) -> bool:
    index = case.index
    try:
        beside = Point.of(case.trial.nudged(case.trial.seed + 7)).with_other_cotangents()
    except TimeUp:
        raise
    except Exception:  # no neighbour to ask
        return True
    found = along(beside, index)
    if found is None:
        return True
    value, returned, error, goal = found
    return abs(returned - factor * value) <= abs(factor) * (10 * goal + 5 * error) + 10 * goal


def along(point: Point, index: int) -> tuple[float, float, float, float] | None:
    """Slope, what the backward makes of it, the slope's error and the least one; ``None`` where there is no slope."""
    direction: torch.Tensor = point.random_direction(index)
    goal = point.trial.precision.differences * point.size(index) * float(direction.norm())
    found = slope(point.trial, index, direction, goal)
    if found.kinked or not found.error <= 1e-2 * abs(found.value) + goal:
        return None
    return found.value, float(point.returned[index] @ direction), found.error, goal
