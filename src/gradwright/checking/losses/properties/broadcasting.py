"""Does it compare (n, 1) with (n,) without a word? Broadcasting makes (n, n) of them, each with each (pt#47870).

Told as information, because most losses written by hand do so; it is a fault if the caller's own tensors are such, or
if the loss was said to refuse them. torch's own warning counts as a word.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator

from torch import Tensor

from gradwright.checking.losses.case import Case
from gradwright.checking.losses.loss import Sample
from gradwright.checking.losses.properties.base import Answer, Property
from gradwright.checking.losses.shape import told
from gradwright.checking.report import NotChecked


def run(case: Case) -> Iterator[Answer]:
    asked = case.declared.refuses_broadcasting
    prediction, target = case.sample.prediction, case.sample.target
    if asked is False or not target.is_floating_point() or prediction.numel() != target.numel():
        return
    own = case.recognised.given and prediction.shape != target.shape
    if (case.sample.extras or case.sample.mask is not None) and not own:
        yield NotChecked(PROPERTY.title, "it takes further arguments, whose shapes would have to follow")
        return
    apart, together = _pairs(prediction, target, own)
    pair = case.sample.at(*apart)
    if not case.loss.accepts(pair) or _complains(case, pair):
        return
    value, right = case.loss.value(pair), case.loss.attempt(case.sample.at(*together))
    if not abs(value - right) > 1e-6 * max(abs(value), abs(right)):
        return
    shapes = f"{tuple(apart[0].shape)} and {tuple(apart[1].shape)}"
    yield PROPERTY.finding(
        case,
        "GW506",
        cause="broadcasting",
        message=f"compares {'your' if own else 'a prediction and a target of shapes'} {shapes} each with each",
        why=f"it gives {told(value)}; for tensors of one shape, the same numbers give {told(right)}",
        do="squeeze the prediction, or let the loss insist: assert prediction.shape == target.shape",
        severity="error" if asked or own else "info",
        at=(pair,),
        value=value,
        matched=right,
    )


def _pairs(prediction: Tensor, target: Tensor, own: bool) -> tuple[tuple[Tensor, Tensor], tuple[Tensor, Tensor]]:
    """Shapes that broadcast, and the same numbers in one shape."""
    if own:
        return (prediction, target), (prediction.reshape(target.shape), target)
    count = min(prediction.numel(), 6)
    prediction, target = prediction.reshape(-1)[:count], target.reshape(-1)[:count]
    return (prediction[:, None], target), (prediction[:, None], target[:, None])


def _complains(case: Case, pair: Sample) -> bool:
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        case.loss.value(pair)
    return bool(said)


PROPERTY = Property(13, "no silent broadcasting", "standard", {"GW506": "loss-broadcasts"}, run)
