"""The gradient of one input is returned for another one of the same shape."""

from __future__ import annotations

import torch

from gradwright.checking.causes.base import Cause, Fit
from gradwright.checking.causes.case import Case


def fits(case: Case) -> Cause | None:
    for other in case.trial.wanted:
        if other == case.index or case.trial.original[other].shape != case.shape:
            continue
        theirs = _truth(case, other)
        if theirs is None:
            continue
        truth, entries = theirs
        if not case.same(case.returned[entries], truth) or case.same(case.point.returned[other][entries], truth):
            continue
        return Cause("swapped inputs", None, {"with": other}, "")
    return None


def _truth(case: Case, other: int) -> tuple[torch.Tensor, torch.Tensor] | None:
    """The gradient of another input, and the entries where it is known."""
    oracle = case.oracle.elsewhere(case.point, other)
    return (oracle.under(case.cotangents), oracle.entries) if oracle.entries.numel() else None


FIT = Fit(70, fits)
