"""The same call, another result; or random numbers drawn in the backward, which the forward did not have."""

from __future__ import annotations

from gradwright.checking.causes.base import Cause, Fit
from gradwright.checking.causes.case import Case


def fits(case: Case) -> Cause | None:
    drawn = case.after_other_draws
    if drawn is None or not bool(((drawn - case.returned).abs() > case.slack).any()):
        return None
    return Cause("nondeterminism", words="its backward draws random numbers of its own")


FIT = Fit(5, fits)
