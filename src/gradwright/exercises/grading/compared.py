"""A tensor against what it should be, and the difference in words."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

_LEAST_SCALE = 1e-3  # below it, entries are as good as zero


def shape_fault(got: Any, expected: Tensor, dtype: torch.dtype) -> tuple[str, str] | None:
    """What is wrong with a result before its numbers are looked at, and what to do about it."""
    if got is None:
        return "it returned None", "is there a `return` at its end, on every way through it?"
    if not isinstance(got, Tensor):
        return f"it returned a {type(got).__name__}, not a tensor", "return the tensor itself: no .item(), no .tolist()"
    if got.shape != expected.shape:
        said = f"its result has shape {list(got.shape)}, where {list(expected.shape)} is asked"
        return said, "print the shapes on the way: which operation adds, drops or sums the wrong axis?"
    if got.dtype != dtype:
        return (
            f"its result is {_named(got.dtype)}, for inputs of {_named(dtype)}",
            "make new tensors like the input (torch.zeros_like, x.new_zeros), and call no .float()",
        )
    return None


def difference(got: Tensor, expected: Tensor, tolerance: float) -> tuple[float, str]:
    """The largest difference, as a share of the largest entry, and words for it: "" if it is within ``tolerance``.

    >>> difference(torch.tensor([2.0, 4.0]), torch.tensor([1.0, 2.0]), 1e-6)[1]
    '2 times what it should be, everywhere: at [1] it is 4, and should be 2'
    >>> difference(torch.tensor([float("nan")]), torch.tensor([1.0]), 1e-6)[1]
    'nan at [0], where it should be 1'
    """
    if got.numel() == 0:
        return 0.0, ""
    is_, should = got.detach().double(), expected.detach().double()
    odd = is_.isfinite().logical_not() & ~((is_ == should) | (is_.isnan() & should.isnan()))
    if bool(odd.any()):
        at = _first(odd)
        return float("inf"), f"{is_[at].item():g}{_at(at)}, where it should be {should[at].item():.6g}"
    finite = should.isfinite()
    if not bool(finite.any()):
        same = bool(((is_ == should) | (is_.isnan() & should.isnan())).all())
        return (0.0, "") if same else (float("inf"), f"{is_.flatten()[0].item():g}, where it is not finite")
    apart = torch.where(finite, (is_ - should).abs(), torch.zeros_like(should))
    scale = max(float(should[finite].abs().max()), _LEAST_SCALE)
    error = float(apart.max()) / scale
    if error <= tolerance:
        return error, ""
    at = _first(apart == apart.max())
    told = f"at {list(at)} it is" if at else "it is"
    return error, f"{_factor(is_, should, finite)}{told} {is_[at].item():.6g}, and should be {should[at].item():.6g}"


def _factor(is_: Tensor, should: Tensor, finite: Tensor) -> str:
    """What all entries have in common, if anything."""
    large = finite & (should.abs() > 1e-6)
    if int(large.sum()) < 2:
        return ""
    if bool((is_ == 0).all()):
        return "0 everywhere: "
    ratios = is_[large] / should[large]
    ratio = float(ratios.mean())
    if not bool(torch.allclose(ratios, torch.full_like(ratios, ratio), rtol=1e-3, atol=0)):
        return ""
    if abs(ratio - 1) < 1e-2:
        return ""
    if abs(ratio + 1) < 1e-3:
        return "the sign is wrong, everywhere: "
    return f"{ratio:.3g} times what it should be, everywhere: "


def _first(where: Tensor) -> tuple[int, ...]:
    return tuple(int(index) for index in where.nonzero()[0])


def _at(at: tuple[int, ...]) -> str:
    return f" at {list(at)}" if at else ""


def _named(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
