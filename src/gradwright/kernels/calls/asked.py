"""The options of ``elementwise``, checked."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch

from gradwright.kernels.calls.definition import Definition
from gradwright.kernels.calls.given import given_derivative
from gradwright.kernels.calls.messages import refusal, told
from gradwright.kernels.formula.reading import read, read_function

_REDUCTIONS = ("none", "sum", "mean")


def definition_of(
    formula: str | Callable[..., Any],
    reduction: str,
    dim: int | tuple[int, ...] | None,
    keepdim: bool,
    derivative: Mapping[str, str | Callable[..., Any]] | None,
    assuming: str | None,
    accumulate: torch.dtype | None,
    name: str | None,
) -> Definition:
    """Raises: UsageError, where the formula can't be read, or an option can't be right; GradientError, where a given
    derivative is wrong."""
    if not isinstance(formula, str) and not callable(formula):
        raise _wrong(f"the formula is {told(formula)}", "hand over a string, or a Python function of numbers")
    if reduction not in _REDUCTIONS:
        raise _wrong(f"reduction={reduction!r}", 'choose "none", "sum" or "mean"')
    if reduction == "none" and (dim is not None or keepdim):
        raise _wrong(f"dim={dim!r}, keepdim={keepdim!r} without a reduction", 'give reduction="sum" or "mean" too')
    if accumulate not in (None, torch.float32, torch.float64):
        raise _wrong(f"accumulate={accumulate!r}", "choose torch.float32 (the default) or torch.float64")
    if assuming is not None and not derivative:
        raise _wrong("assuming is given without a derivative", "leave it out, or give derivative={...} too")
    found = read(formula) if isinstance(formula, str) else read_function(formula)
    return Definition(
        name or (formula.__name__ if not isinstance(formula, str) and _has_name(formula) else "elementwise"),
        found.inputs,
        given_derivative(found, derivative, assuming) if derivative else found.output,
        found.text,
        dict(found.defaults),
        reduction,  # type: ignore[arg-type]  # it is one of _REDUCTIONS
        _axes(dim),
        bool(keepdim),
        accumulate or torch.float32,
    )


def _has_name(function: Callable[..., Any]) -> bool:
    return getattr(function, "__name__", "<lambda>") != "<lambda>"


def _axes(dim: Any) -> tuple[int, ...] | None:
    if dim is None:
        return None
    axes = dim if isinstance(dim, (tuple, list)) else (dim,)
    if not axes or not all(isinstance(axis, int) and not isinstance(axis, bool) for axis in axes):
        raise _wrong(f"dim={dim!r}", "name an axis (an int) or several (a tuple); leave dim out to reduce them all")
    return tuple(axes)


def _wrong(what: str, do: str) -> Exception:
    return refusal(what, where="elementwise(...)", do=do)
