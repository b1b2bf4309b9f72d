"""Something is added that is not the cotangent's: the backward of a zero cotangent is not zero."""

from __future__ import annotations

import torch

from gradwright.checking.causes.base import Cause, Fit
from gradwright.checking.causes.case import Case


def fits(case: Case) -> Cause | None:
    rest = case.at_zero
    if float(rest.abs().max()) <= case.slack or not case.same(case.other_returned - rest, _linear_part(case, rest)):
        return None
    constant = float(rest.max() - rest.min()) <= case.slack
    if case.same(case.pick(case.returned - rest), case.truth) or constant:
        size = float(rest.abs().max())
        amount = f"{float(rest[0]):.6g}" if constant else f"up to {size:.6g}"
        return Cause("additive offset", None, {"offset": float(rest[0]) if constant else size}, f"{amount} is added")
    return Cause("missing grad_output", words="a part of it is the same for every cotangent")


def _linear_part(case: Case, rest: torch.Tensor) -> torch.Tensor:
    """What comes back for the other cotangents, put together from two halves of them."""
    halves = [[0.25 * c for c in case.other], [0.75 * c for c in case.other]]
    return case.backward(halves[0]) + case.backward(halves[1]) - 2 * rest


FIT = Fit(40, fits)
