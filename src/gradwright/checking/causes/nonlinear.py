"""The backward is not linear in the cotangent, as every vjp is: abs, sign, clamp, a square."""

from __future__ import annotations

import torch

from gradwright.checking.causes.base import Cause, Fit
from gradwright.checking.causes.case import Case


def fits(case: Case) -> Cause | None:
    ours, theirs = case.returned, case.other_returned
    for factor in (-1.0, 0.125, 8.0):
        if bent(case, case.times(factor), factor * ours, max(abs(factor), 1.0)):
            return Cause(
                "nonlinear in the cotangent", None, {}, f"{factor:g} times the cotangent gives another multiple"
            )
    both = [one + two for one, two in zip(case.cotangents, case.other, strict=True)]
    if bent(case, case.backward(both), ours + theirs, 2.0):
        return Cause("nonlinear in the cotangent", None, {}, "a sum of cotangents does not give the sum")
    return None


def bent(case: Case, found: torch.Tensor, linear: torch.Tensor, growth: float) -> bool:
    """Is ``found`` not what linearity asks for, by more than rounding and by a share of the error that is explained?"""
    rounding = max(1e-9, min(64 * case.trial.precision.eps, 0.1))
    least = max(case.slack, rounding * float(linear.abs().max()))
    return bool(((found - linear).abs() > growth * least).any())


FIT = Fit(50, fits)
