"""Right only for a cotangent that is contiguous."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from corpus.measuring import differs_under, layouts
from corpus.spoilers.base import CONTRACT, Spoiler, is_real, of_cotangent

_differs = differs_under(layouts)


def _rows(shape: torch.Size) -> tuple[int, ...]:
    strides = [1]
    for size in reversed(shape[1:]):
        strides.insert(0, strides[0] * max(size, 1))
    return tuple(strides[: len(shape)])


def _strides_ignored(cotangent: Tensor) -> Tensor:
    """As a kernel reads memory: from the first element on, row by row."""
    return torch.as_strided(cotangent, cotangent.shape, _rows(cotangent.shape), cotangent.storage_offset())


def _offset_ignored(cotangent: Tensor) -> Tensor:
    """As a kernel reads memory that was handed the storage's address."""
    return torch.as_strided(cotangent, cotangent.shape, cotangent.stride(), 0)


def _required(cotangent: Tensor) -> Tensor:
    if not cotangent.is_contiguous():
        raise RuntimeError("grad_output must be contiguous")
    return cotangent


def _viewed(cotangent: Tensor) -> Tensor:
    return cotangent.view(-1).view(cotangent.shape)


def _first_for_all(cotangent: Tensor) -> Tensor:
    """An expanded cotangent is taken for one number."""
    if cotangent.numel() > 1 and cotangent.ndim and cotangent.stride(0) == 0:
        return cotangent / cotangent.shape[0]
    return cotangent


def _of(name: str, change: Any, **options: Any) -> Spoiler:
    return of_cotangent(name, "layout", change, kind=CONTRACT, differs=_differs, **options)


SPOILERS = [
    _of("view of the cotangent", _viewed),
    _of("strides of the cotangent ignored", _strides_ignored, applies=is_real),
    _of("storage offset of the cotangent ignored", _offset_ignored, applies=is_real),
    _of("contiguous cotangent required", _required),
    _of("expanded cotangent divided", _first_for_all),
]
