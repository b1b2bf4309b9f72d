"""Does a batch in which everything is masked, or every label is the ignored one, cost a finite number and no gradient?

``(loss * mask).sum() / mask.sum()`` is 0/0 there, and so is the mean of nothing: NaN, from one unlucky batch on
(pt#70348, nanochat#590). And what is masked must have no gradient, whatever stands there.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

import torch
from torch import Tensor

from gradwright.checking.losses.case import Case
from gradwright.checking.losses.loss import Sample
from gradwright.checking.losses.properties.base import Answer, Property
from gradwright.checking.losses.shape import told
from gradwright.checking.report import Finding, NotChecked
from gradwright.checking.trial import TimeUp


def run(case: Case) -> Iterator[Answer]:
    if case.loss.mask:
        yield from _masked(case)
    if case.loss.ignore_index is not None and case.kind.startswith("class"):
        yield from _ignored(case, case.loss.ignore_index)


def _masked(case: Case) -> Iterator[Answer]:
    found = next((found for mask in _masks(case) if (found := _keeping(case, mask))), None)
    if found is None:
        yield NotChecked(PROPERTY.title, f"no element's gradient is 0 under its argument {case.loss.mask!r}")
        return
    half, keep = found
    everything = replace(case.sample, mask=_of_value(half, not keep))
    yield from _empty_batch(case, everything, f"a mask of {'zeros' if keep else 'ones'}", "masked")
    hidden = half.reshape(-1) != torch.tensor(keep).to(half.dtype)
    poisoned = case.sample.prediction.to(torch.float64).clone().reshape(-1)
    if poisoned.numel() == hidden.numel():
        poisoned[hidden] = math.nan
        value = case.loss.attempt(replace(case.sample, mask=half).at(poisoned.reshape(case.sample.prediction.shape)))
        if math.isnan(value):
            yield _finding(
                case,
                replace(case.sample, mask=half).at(poisoned.reshape(case.sample.prediction.shape)),
                "lets a NaN through that is masked",
                "NaN times 0 is NaN: multiplying by a mask does not take anything out, choosing by it does",
                "info",
            )


def _masks(case: Case) -> Iterator[Tensor]:
    """Masks that leave every other element out."""
    given = case.sample.mask
    at = case.loss.names.index(case.loss.mask) - 2 if case.loss.mask in case.loss.names else -1
    if given is None and 0 <= at < len(case.sample.extras) and isinstance(case.sample.extras[at], Tensor):
        given = case.sample.extras[at]
    shapes = [(given.shape, given.dtype)] if given is not None else [
        (shape, dtype)
        for shape in dict.fromkeys((case.sample.target.shape, case.sample.prediction.shape[:1]))
        for dtype in (torch.bool, torch.float64)
    ]  # fmt: skip
    for shape, dtype in shapes:
        yield (torch.arange(shape.numel()) % 2).reshape(shape).to(dtype)


def _keeping(case: Case, mask: Tensor) -> tuple[Tensor, bool] | None:
    """The mask, and which of its two values keeps an element: that of the other has no gradient."""
    try:
        _, gradient = case.loss.slope(replace(case.sample, mask=mask))
    except TimeUp:
        raise
    except Exception:  # another shape or dtype may be what it takes
        return None
    spread = mask.to(torch.float64).reshape(*mask.shape, *[1] * (gradient.ndim - mask.ndim))
    if mask.ndim == gradient.ndim - 1 and case.kind.startswith("class"):
        spread = mask.to(torch.float64).unsqueeze(1)
    try:
        on = spread.expand_as(gradient) > 0.5
    except RuntimeError:
        return None
    if not bool(on.any()) or bool(on.all()):
        return None
    moved_on, moved_off = bool((gradient[on] != 0).any()), bool((gradient[~on] != 0).any())
    return (mask, moved_on) if moved_on != moved_off else None


def _of_value(mask: Tensor, value: bool) -> Tensor:
    return torch.full_like(mask, value)


def _ignored(case: Case, label: int) -> Iterator[Answer]:
    target = case.sample.target
    ignored = case.sample.at(case.sample.prediction, torch.full_like(target, label))
    yield from _empty_batch(case, ignored, f"labels that are all {label}, the ignored one", "ignored")
    if target.ndim < 1 or target.shape[0] < 2:
        return
    first = target.clone()
    first[0] = label
    try:
        value, gradient = case.loss.slope(case.sample.at(case.sample.prediction, first))
    except TimeUp:
        raise
    except Exception:  # refused: that is an answer too
        return
    if math.isfinite(value) and bool((gradient[0] != 0).any()):
        sample = case.sample.at(case.sample.prediction, first)
        message, why = f"gives a row a gradient whose label is {label}, the ignored one", "its row 0 is not 0"
        yield _finding(case, sample, message, why, "error")


def _empty_batch(case: Case, sample: Sample, words: str, how: str) -> Iterator[Finding | NotChecked]:
    try:
        value, gradient = case.loss.slope(sample)
    except TimeUp:
        raise
    except Exception as error:  # it may refuse such a batch, or return a constant
        value = case.loss.attempt(sample)
        if math.isnan(value):
            yield NotChecked(
                f"a batch that is all {how}", f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"
            )
            return
        gradient = torch.zeros(1, dtype=torch.float64)
    message = ""
    if not math.isfinite(value):
        message = f"is {value} for {words}"
    elif not bool(torch.isfinite(gradient).all()):
        message = f"has a gradient that is not finite for {words}"
    elif bool((gradient != 0).any()):
        message = f"has a gradient for {words}"
    if message:
        why = f"nothing is left to average: the value is {told(value)}, and one such batch makes every parameter so"
        yield _finding(case, sample, message, why, "info" if case.loss.shipped else "warning")


def _finding(case: Case, sample: Sample, message: str, why: str, severity: str) -> Finding:
    return PROPERTY.finding(
        case,
        "GW507",
        cause="nothing left",
        message=message,
        why=why,
        do="divide by the number of elements kept, clamped to 1 at least, and choose with torch.where or by index",
        severity=severity,  # type: ignore[arg-type]  # one of three words, given above
        at=(sample,),
    )


PROPERTY = Property(14, "masked and ignored batches", "standard", {"GW507": "loss-of-masked-batch"}, run)
