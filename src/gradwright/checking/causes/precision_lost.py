"""The error is rounding: of float32 or half arithmetic inside, or of a result that was cast.

A cast result is exactly representable in the narrow type, which a product with random float64 cotangents never is. Of
arithmetic inside, the narrow type is seen in the backward, and the error is as erratic as rounding is: when the
cotangents (or the inputs) move a little, a wrong formula's error moves a little, and a rounding error is another one
altogether. (So is that of a solver which stops at a tolerance; but it is in float64.)
"""

from __future__ import annotations

import itertools

import torch

from gradwright.checking.causes.base import Cause, Fit
from gradwright.checking.causes.case import Case
from gradwright.checking.narrow import narrow_dtypes, representable

NARROW = (torch.float16, torch.bfloat16, torch.float32)
LARGEST = 2e-2
STEPS = 12


def fits(case: Case) -> Cause | None:
    if case.trial.precision.name != "float64" or not 0 < case.apart <= LARGEST * case.largest:
        return None
    for dtype in NARROW:
        if representable(case.part, dtype) and not representable(case.truth, dtype):
            return _named(str(dtype).removeprefix("torch."))
    seen = narrow_dtypes(case.trial)
    if not seen or (not case.oracle.exact and case.apart < 10 * case.doubt):
        return None
    if _erratic(_errors_as_cotangents_grow(case)) or (case.oracle.exact and _erratic(_errors_as_inputs_move(case))):
        return _named(str(seen[0]).removeprefix("torch."))
    return None


def _named(granularity: str) -> Cause:
    return Cause("precision lost", None, {"granularity": granularity}, f"rounded as {granularity} is")


def _errors_as_cotangents_grow(case: Case) -> list[torch.Tensor]:
    errors = []
    for step in range(STEPS):
        factor = 1 + 0.013 * step
        given = [cotangent * factor for cotangent in case.cotangents]
        errors.append((case.pick(case.backward(given)) - factor * case.truth) / factor)
    return errors


def _errors_as_inputs_move(case: Case) -> list[torch.Tensor]:
    errors = []
    for step in range(STEPS):
        near = case.at_values(case.trial.inputs[case.index] * (1 + 1e-5 * step))
        if near is None:
            return []
        near = near.under(case.cotangents)
        errors.append(near.part - near.truth)
    return errors


def _erratic(errors: list[torch.Tensor]) -> bool:
    """Do the errors jump about from step to step? Smooth ones change little beside their size."""
    if not errors:
        return False
    size = sum(float(error.square().sum()) for error in errors)
    jumps = sum(float((b - a).square().sum()) for a, b in itertools.pairwise(errors))
    return jumps > 0.5 * size


FIT = Fit(20, fits)
