"""A constant times the truth, for every cotangent and beside this point too."""

from __future__ import annotations

from gradwright.checking.causes.base import Cause, Fit
from gradwright.checking.causes.case import Case
from gradwright.checking.causes.factors import fitted, holds


def fits(case: Case) -> Cause | None:
    factor = fitted(case)
    if factor is None or not holds(case, factor):
        return None
    return Cause("constant factor", factor, {"factor": factor}, f"{factor:.6g} times what it is")


FIT = Fit(62, fits)
