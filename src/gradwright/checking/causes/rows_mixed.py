"""A row of the gradient holds what belongs to another row: the batch was averaged, permuted or mixed.

Two ways to see it. The cotangent of one row changes the gradient of another, where the truth does not. Or every row
that was returned is a combination of several true rows, R = M T with one matrix M whatever the cotangents and inputs.
"""

from __future__ import annotations

import math

import torch

from gradwright.checking.causes.base import Cause, Fit
from gradwright.checking.causes.case import Case

TRIED = 4
MOST_ROWS, MOST_SAMPLES, MOST_BY_DIFFERENCES = 64, 40, 600


def fits(case: Case) -> Cause | None:
    if not case.is_real or not case.shape or case.shape[0] < 2 or case.returned.numel() < 3:
        return None
    return _hears_of_others(case) or _combined(case)


def _hears_of_others(case: Case) -> Cause | None:
    rows = case.shape[0]
    if any(not c.dim() or c.shape[0] != rows for c in case.cotangents):
        return None
    row_of = case.entries // (case.shape.numel() // rows)
    least = max(10 * case.doubt, 1e-3 * case.apart)
    for row in sorted({0, rows // 2, rows - 1, 1})[:TRIED]:
        changed = [_with_row(c, other, row) for c, other in zip(case.cotangents, case.other, strict=True)]
        elsewhere = row_of != row
        true = (case.true_under(changed) - case.truth).abs()[elsewhere]
        if not true.numel() or float(true.max()) > least:
            return None
        ours = (case.pick(case.backward(changed)) - case.part).abs()[elsewhere]
        if float(ours.max()) > 4 * least:
            words = f"the cotangent of row {row} changes the gradient of other rows"
            return Cause("batch rows mixed", None, {"how": words}, words)
    return None


def _with_row(cotangent: torch.Tensor, other: torch.Tensor, row: int) -> torch.Tensor:
    changed = cotangent.clone()
    changed[row] = other[row]
    return changed


def _combined(case: Case) -> Cause | None:
    """Fit M in R = M T by least squares, from twice as many numbers as it has and more."""
    rows = case.shape[0]
    samples = 2 + math.ceil(1.5 * rows / (case.shape.numel() // rows))
    if rows > MOST_ROWS or samples > MOST_SAMPLES or not case.is_whole:
        return None
    if not case.oracle.exact and samples * case.returned.numel() > MOST_BY_DIFFERENCES:
        return None
    returned, truth = [case.returned, case.other_returned], [case.truth, case.other_truth]
    generator = torch.Generator().manual_seed(case.trial.seed + 59)
    here = case.trial.inputs[case.index]
    for number in range(samples - 2):
        drawn = torch.rand(here.shape, generator=generator, dtype=torch.float64, device="cpu")
        beside = case.at_values(here * (0.9 + 0.2 * drawn))
        if beside is None or not beside.is_whole:
            return None
        beside = beside.under(case.trial.redrawn(case.trial.seed + 60 + number))
        returned.append(beside.returned)
        truth.append(beside.truth)
    r, t = (torch.cat([one.reshape(rows, -1) for one in many], 1) for many in (returned, truth))
    if t.shape[1] < int(torch.linalg.matrix_rank(t)) + 2:
        return None
    mixing = torch.linalg.lstsq(t.T, r.T, driver="gelsd").solution.T
    left = (mixing @ t - r).abs().max()
    if float(left) > 1e-6 * float(r.abs().max()) + 10 * case.doubt:
        return None
    across = mixing - mixing.diag().diag()
    if float(across.abs().max()) < 1e-3 * float(mixing.abs().max()):
        return None
    words = "each row that is returned is a combination of several rows of the gradient"
    return Cause("batch rows mixed", None, {"how": words}, words)


FIT = Fit(110, fits)
