"""The gradient does not depend on the cotangent at all: a derivative was returned, not a vjp."""

from __future__ import annotations

from gradwright.checking.causes.base import Cause, Fit
from gradwright.checking.causes.case import Case


def fits(case: Case) -> Cause | None:
    if not bool(case.returned.any()):
        return None
    if float((case.returned - case.other_returned).abs().max()) > 1e-9 * float(case.returned.abs().max()):
        return None
    negative = case.times(-1.0)
    if not case.same(case.pick(negative), case.part):
        return None  # the sign of it
    if case.largest <= case.doubt:  # of a true gradient of zero nothing else is left
        return Cause("additive offset", None, {}, "what is added to a gradient of zero holds no cotangent")
    return Cause("missing grad_output", words="the same comes back for every cotangent")


FIT = Fit(30, fits)
