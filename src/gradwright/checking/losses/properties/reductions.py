"""Do the reductions say the same: does "none" add up to "sum", and is "mean" the sum divided by how many there are?"""

from __future__ import annotations

import math
from collections.abc import Iterator

from torch import Tensor

from gradwright.checking.losses.case import Case
from gradwright.checking.losses.properties.base import Answer, Property
from gradwright.checking.losses.shape import told
from gradwright.checking.report import NotChecked, Severity
from gradwright.checking.trial import TimeUp


def run(case: Case) -> Iterator[Answer]:
    if not case.loss.reduction:
        return
    got: dict[str, Tensor] = {}
    for reduction in ("none", "sum", "mean"):
        try:
            got[reduction] = case.loss.raw(case.sample, reduction=reduction).detach().double()
        except TimeUp:
            raise
        except Exception as error:  # a loss may know other reductions only
            yield NotChecked(f'reduction="{reduction}"', f"{type(error).__name__}: {str(error).partition(chr(10))[0]}")
    one_number = len(got) == 3 and case.sample.prediction.numel() > 1 and _all_equal(list(got.values()))
    if one_number and case.sample.prediction.ndim < 2 and not (case.recognised.of_error and not case.free):
        yield NotChecked(PROPERTY.title, "one row may be all that there is to reduce: give an example of several")
        return
    if one_number:
        yield _fault(case, "takes a reduction and ignores it", "none, sum and mean give the same number", "error", got)
        return
    for reduction in ("sum", "mean"):
        if reduction in got and got[reduction].numel() != 1:
            words = f'is not reduced by reduction="{reduction}"'
            yield _fault(case, words, f"it returns the shape {tuple(got[reduction].shape)}", "error", got)
            return
    yield from _sum(case, got)
    yield from _mean(case, got)


def _all_equal(results: list[Tensor]) -> bool:
    return all(result.numel() == 1 and _close(float(result), float(results[0])) for result in results)


def _close(one: float, other: float) -> bool:
    return abs(one - other) <= 1e-5 * max(abs(one), abs(other), 1e-12)


def _sum(case: Case, got: dict[str, Tensor]) -> Iterator[Answer]:
    if "none" not in got or "sum" not in got or got["none"].numel() == 1:
        return
    added, total = float(got["none"].sum()), float(got["sum"])
    if math.isfinite(added) and not _close(added, total):
        why = f'reduction="none" adds up to {told(added)}, reduction="sum" gives {told(total)}'
        yield _fault(case, 'gives another sum than its parts for reduction="sum"', why, "error", got)


def _mean(case: Case, got: dict[str, Tensor]) -> Iterator[Answer]:
    whole = "none" in got and got["none"].numel() > 1
    total = got["none"].sum() if whole else got.get("sum")
    if total is None or "mean" not in got or not float(got["mean"]):
        return
    parts = got["none"].numel() if whole else case.sample.target.numel()
    divisor = float(total) / float(got["mean"])
    ignored = case.loss.ignore_index if case.kind.startswith("class") else None
    kept = parts if ignored is None else int(case.sample.target.ne(ignored).sum())
    if not math.isfinite(divisor) or _close(divisor, parts) or _close(divisor, kept):
        return
    if case.loss.weighted or case.free:
        yield NotChecked("what the mean is divided by", "there are weights, or further arguments that may be weights")
        return
    rows = case.sample.prediction.shape[0] if case.sample.prediction.ndim else 1
    severity: Severity = "warning" if _close(divisor, rows) else "error"
    by = f"{divisor:.6g}" + (", the number of rows" if _close(divisor, rows) else "")
    words = f'divides by {by}, not by its {parts} parts for reduction="mean"'
    why = f"the sum is {told(float(total))}, the mean {told(float(got['mean']))}"
    yield _fault(case, words, why, severity, got)


def _fault(case: Case, message: str, why: str, severity: Severity, got: dict[str, Tensor]) -> Answer:
    return PROPERTY.finding(
        case,
        "GW505",
        cause="reduction",
        message=message,
        why=why,
        do="compute the unreduced loss once, and reduce it at the end: loss, loss.sum() or loss.mean()",
        severity=severity,
        at=(case.sample,),
        sums={name: float(value.sum()) for name, value in got.items()},
    )


PROPERTY = Property(12, "reductions consistent", "standard", {"GW505": "loss-reduction-inconsistent"}, run)
