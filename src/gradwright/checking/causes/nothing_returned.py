"""Zeros (or ``None``) for an input that matters."""

from __future__ import annotations

import torch

from gradwright.checking.causes.base import Cause, Fit
from gradwright.checking.causes.case import Case


def fits(case: Case) -> Cause | None:
    if case.largest <= case.doubt or float(case.returned.abs().max()) > 1e-3 * case.slack:
        return None
    if bool(case.times(-1.0).abs().max() > 1e-3 * case.slack):
        return None  # only for cotangents of this sign
    if bool(case.returned.any()):
        ones = case.true_under([torch.ones_like(cotangent) for cotangent in case.cotangents])
        if float(ones.abs().max()) <= case.slack:  # a softmax's: nothing but the rounding of a sum that cancels
            return Cause("missing grad_output", words="it is that of a cotangent of ones, which is zero here")
    return Cause("dropped term", 0.0, {"dropped": "everything"}, "nothing is returned")


FIT = Fit(10, fits)
