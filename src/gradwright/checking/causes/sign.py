"""Minus the truth."""

from __future__ import annotations

from gradwright.checking.causes.base import Cause, Fit
from gradwright.checking.causes.case import Case
from gradwright.checking.causes.factors import fitted, holds


def fits(case: Case) -> Cause | None:
    factor = fitted(case)
    if factor is None or abs(factor + 1) > 1e-4 or not holds(case, factor):
        return None
    return Cause("sign", -1.0)


FIT = Fit(61, fits)
