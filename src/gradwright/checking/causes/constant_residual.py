"""The same number is added at every entry, though it grows with the cotangent."""

from __future__ import annotations

from gradwright.checking.causes.base import Cause, Fit
from gradwright.checking.causes.case import Case


def fits(case: Case) -> Cause | None:
    if case.largest <= case.doubt:
        return None  # beside a truth of zero, any gradient that is the same everywhere would do
    for returned, truth in ((case.part, case.truth), (case.pick(case.other_returned), case.other_truth)):
        residual = returned - truth
        if residual.numel() < 3 or float(residual.max() - residual.min()) > case.slack:
            return None
    amount = float((case.part - case.truth)[0])
    return Cause("additive offset", None, {"offset": amount}, f"{amount:.6g} is added at every entry")


FIT = Fit(130, fits)
