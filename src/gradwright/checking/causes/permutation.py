"""The right values at each other's places, or those that belong to a cotangent whose values changed places."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch

from gradwright.checking.causes.base import Cause, Fit
from gradwright.checking.causes.case import Case

Move = Callable[[torch.Tensor], torch.Tensor]


def fits(case: Case) -> Cause | None:
    if not case.is_real or case.returned.numel() < 2:
        return None
    pairs = ((case.returned, case.truth), (case.other_returned, case.other_truth))
    for how, rows, move in moves(case.shape):
        if all(case.same(case.pick(move(r.reshape(case.shape)).reshape(-1)), t) for r, t in pairs):
            return named(how, rows and case.shape.numel() > case.shape[0])
    if all(_are_among(case, truth, returned) for returned, truth in pairs):
        rows = _whole_rows(case)
        return named("its rows changed places" if rows else "its values changed places", rows)
    return _of_the_cotangent(case)


def named(how: str, rows: bool) -> Cause:
    return Cause("batch rows mixed" if rows else "permutation", None, {"how": how}, how)


def moves(shape: torch.Size) -> Iterator[tuple[str, bool, Move]]:
    """Ways to change places, in words, whether they keep whole rows together, and the way back."""
    for axis in range(len(shape)):
        if shape[axis] > 1:
            yield f"flipped along axis {axis}", axis == 0, lambda t, axis=axis: t.flip(axis)  # type: ignore[misc]
            for by in (1, -1):
                yield f"rolled along axis {axis}", axis == 0, lambda t, axis=axis, by=by: t.roll(-by, axis)  # type: ignore[misc]
    if len(shape) > 1:
        yield "flipped from end to end", False, lambda t: t.reshape(-1).flip(0).reshape(t.shape)
        for by in (1, -1):
            yield "rolled from end to end", False, lambda t, by=by: t.reshape(-1).roll(-by).reshape(t.shape)  # type: ignore[misc]


def _are_among(case: Case, truth: torch.Tensor, returned: torch.Tensor) -> bool:
    """Are the true values those that were returned, in whatever order? Of sampled ones: is each of them among those?"""
    least, ordered = 10 * case.doubt, returned.sort().values
    if case.is_whole:
        return bool(((truth.sort().values - ordered).abs() <= least).all())
    after = torch.searchsorted(ordered, truth).clamp(1, ordered.numel() - 1)
    nearest = torch.minimum((ordered[after] - truth).abs(), (ordered[after - 1] - truth).abs())
    dense = least * ordered.numel() > 0.01 * float(ordered[-1] - ordered[0])  # any number would be near some
    return not dense and bool((nearest <= least).all())


def _whole_rows(case: Case) -> bool:
    """Do the values of each row of the truth stand together in one row, in the same order?"""
    if case.shape.numel() == case.shape[0] or not case.is_whole:
        return False
    returned, truth = case.returned.reshape(case.shape[0], -1), case.truth.reshape(case.shape[0], -1)
    apart = (returned[:, None] - truth[None]).abs().amax(-1)
    return bool((apart <= case.slack).any(1).all()) if returned.shape[0] <= 256 else False


def _of_the_cotangent(case: Case) -> Cause | None:
    if len(case.cotangents) != 1 or case.cotangents[0].is_complex():
        return None
    for how, rows, move in moves(case.cotangents[0].shape):
        if all(
            case.same(case.pick(returned), case.true_under([move(given[0])]))
            for given, returned in ((case.cotangents, case.returned), (case.other, case.other_returned))
        ):
            return named(f"that of a cotangent {how}", rows and len(case.cotangents[0].shape) > 1)
    return None


FIT = Fit(90, fits)
