"""Of several outputs, the cotangent of one is ignored, or has a factor of its own."""

from __future__ import annotations

import torch

from gradwright.checking.causes.base import Cause, Fit
from gradwright.checking.causes.case import Case


def fits(case: Case) -> Cause | None:
    if len(case.cotangents) < 2:
        return None
    positions = [position for position, active in enumerate(case.trial.active) if active]
    for number, position in enumerate(positions):
        share = case.true_under(_alone(case.cotangents, number))
        size = float(share @ share)
        if not size:
            continue
        extra = float(share @ (case.part - case.truth)) / size
        if not case.same(case.part, case.truth + extra * share):
            continue
        other = case.other_truth + extra * case.true_under(_alone(case.other, number))
        if not case.same(case.pick(case.other_returned), other):
            continue
        if abs(extra + 1) < 1e-6:
            words = f"the cotangent of output {position} is ignored"
            return Cause("dropped term", None, {"dropped": words}, words)
        words = f"the cotangent of output {position} counts {1 + extra:.6g} times"
        return Cause("constant factor", None, {"output": position, "factor": 1 + extra}, words)
    return None


def _alone(cotangents: list[torch.Tensor], number: int) -> list[torch.Tensor]:
    return [c if position == number else torch.zeros_like(c) for position, c in enumerate(cotangents)]


FIT = Fit(95, fits)
