"""The factor is how many there are of something: a mean was differentiated as a sum, or a sum as a mean.

Told from a constant by trying another size: how many there are changes, a constant stays. 2 and 1/2 are constants.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import torch

from gradwright.checking.causes.base import Cause, Fit
from gradwright.checking.causes.case import Case
from gradwright.checking.causes.factors import along, fitted, holds
from gradwright.checking.evidence import Point
from gradwright.checking.trial import TimeUp, Trial


def fits(case: Case) -> Cause | None:
    factor = fitted(case)
    if factor is None:
        return None
    number = round(max(abs(factor), 1 / abs(factor)))
    near = factor if abs(factor) > 1 else 1 / factor
    if number < 3 or abs(abs(near) - number) > 1e-3 * number or number not in counts(case.trial, case.index).values():
        return None
    if not holds(case, factor):
        return None
    if not _changes_with_size(case, factor, number):
        return None
    meant = "summed where the forward takes a mean" if abs(factor) > 1 else "a mean where the forward sums"
    return Cause("sum for mean", factor, {"n": number}, f"{meant}: {number} times")


def counts(trial: Trial, index: int) -> dict[str, int]:
    """How many there are of what, by name: numbers in the input, in the outputs, along each axis of either."""
    shape = trial.original[index].shape
    found = {"input": shape.numel()}
    for axis, size in enumerate(shape):
        found[f"input axis {axis}"] = size
        found[f"input but axis {axis}"] = shape.numel() // max(size, 1)
    for number, cotangent in enumerate(trial.cotangents):
        found[f"output {number}"] = cotangent.numel()
        found[f"input per output {number}"] = shape.numel() // max(cotangent.numel(), 1)
        for axis, size in enumerate(cotangent.shape):
            found[f"output {number} axis {axis}"] = size
    for other, value in enumerate(trial.original):
        if isinstance(value, torch.Tensor) and other != index:
            found[f"argument {other}"] = value.numel()
    return found


def _changes_with_size(case: Case, factor: float, number: int) -> bool:
    before = {name for name, count in counts(case.trial, case.index).items() if count == number}
    asked = False
    for args in _other_sizes(case):
        try:
            point = Point.of(case.trial.at(args))
            after = _factor(point, case.index)
        except TimeUp:
            raise
        except Exception:  # the forward wants this size
            continue
        if after is None:
            continue
        now = counts(point.trial, case.index)
        changed = {now.get(name) for name in before} - {number}
        if not changed:
            continue
        asked = True
        if abs(after / factor - 1) < 1e-3:
            continue  # the count changed and the factor did not; another axis may still be the one
        if any(count and math.isclose(abs(after) if abs(factor) > 1 else 1 / abs(after), count, rel_tol=1e-2)
               for count in changed):  # fmt: skip
            return True
    if asked:
        return False
    return number >= 5 and number != 10  # by rule: no size but this one, and no number that people write by hand


def _other_sizes(case: Case) -> Iterator[list[object]]:
    """The arguments with one entry less along the axes of one size, for each size that the input has."""
    for size in dict.fromkeys(case.shape):
        if size < 3:
            continue
        args: list[object] = case.trial.copied()
        for position, value in enumerate(args):
            if isinstance(value, torch.Tensor):
                for axis in [axis for axis in range(value.dim()) if value.shape[axis] == size]:
                    value = value.narrow(axis, 0, size - 1)
                args[position] = value.clone()
        yield args


def _factor(point: Point, index: int) -> float | None:
    if point.plain is not None:
        truth = point.plain[index]
        size = float(truth @ truth)
        return float(truth @ point.returned[index]) / size if size else None
    found = along(point, index)
    return None if found is None or not found[0] else found[1] / found[0]


FIT = Fit(60, fits)
