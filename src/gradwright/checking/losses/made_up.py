"""Samples made up for a loss: shapes it may take, and something for every argument that it asks for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import islice
from typing import Any

import torch
from torch import Tensor

from gradwright.checking.losses.kinds import Kind, draw
from gradwright.checking.losses.loss import Loss, Sample

_SHAPES = ((4, 3), (6,), (2, 1, 16, 16), (2, 3, 16, 16))
_CLASS_SHAPES = ((5, 3), (2, 3, 8, 8))


def samples(loss: Loss, kind: Kind, *, positive: bool = False) -> Iterator[Sample]:
    """Samples of ordinary numbers that the loss takes, over shapes and over what its further arguments may be."""
    for shape in _CLASS_SHAPES if kind.startswith("class") else _SHAPES:
        sample = draw(kind, shape, torch.Generator().manual_seed(loss.seed), positive=positive)
        taken = (filled for filled in completed(loss, sample) if loss.accepts(filled))
        yield from islice((filled for filled in taken if filled.mask is None or _matters(loss, filled)), 1)


def completed(loss: Loss, sample: Sample) -> Iterator[Sample]:
    """``sample`` with what else the loss asks for: a mask that hides nothing, and arguments without defaults."""
    for mask in _masks(loss, sample):
        for extras in _extras(loss, sample):
            yield replace(sample, mask=mask, extras=(*sample.extras, *extras))


def _masks(loss: Loss, sample: Sample) -> Iterable[Tensor | None]:
    if not loss.needs_mask or _given_as_extra(loss, sample):
        return (None,)
    shapes = dict.fromkeys((sample.target.shape, sample.prediction.shape, sample.prediction.shape[:1]))
    return (
        torch.full(shape, value, dtype=dtype)
        for value in (1, 0)
        for shape in shapes
        for dtype in (torch.bool, torch.float64)
    )


def _matters(loss: Loss, sample: Sample) -> bool:
    """Does the value change with the prediction, so that it is not hidden?"""
    return loss.attempt(sample) != loss.attempt(sample.at(0.75 * sample.prediction))


def _given_as_extra(loss: Loss, sample: Sample) -> bool:
    return loss.mask in loss.names and loss.names.index(loss.mask) < 2 + len(sample.extras)


def _extras(loss: Loss, sample: Sample) -> Iterable[tuple[Any, ...]]:
    asked = loss.required - (1 if loss.needs_mask and not _given_as_extra(loss, sample) else 0)
    missing = asked - 2 - len(sample.extras)
    if missing <= 0:
        return ((),)
    shape = sample.prediction.shape
    generator = torch.Generator().manual_seed(loss.seed + 1)
    real = torch.randn(shape, generator=generator, dtype=torch.float64, device="cpu")
    signs = 1.0 - 2.0 * (torch.arange(real.numel(), device="cpu").reshape(shape) % 2).to(torch.float64)
    return tuple((extra,) * missing for extra in (real.abs() + 0.5, real, signs, signs.reshape(-1)[: shape[0]]))
