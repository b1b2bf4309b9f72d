"""What the errors of custom_gradient say: what happened, where, why, what to do."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Iterable
from typing import Any

from torch import Tensor

from gradwright.errors import UsageError


class GradientNotImplemented(UsageError, NotImplementedError):
    """A gradient is needed that its author says is not implemented."""


def complaint(what: str, *, do: str, where: str = "", why: str = "") -> UsageError:
    """The error to raise.

    >>> print(complaint("x is missing", where="a.py:3, f", do="hand it over"))
    x is missing
      where  a.py:3, f
      do     hand it over
    """
    return UsageError(_lines(what, where, why, do))


def not_implemented(name: str, where: str, why: str, do: str) -> GradientNotImplemented:
    """The error for an input that needs a gradient of which there is none."""
    return GradientNotImplemented(_lines(f"no gradient by {name} is implemented, and one is needed", where, why, do))


def _lines(what: str, where: str, why: str, do: str) -> str:
    told_of = (("where", where), ("why", why), ("do", do))
    return "\n".join([what, *(f"  {label:<5}  {text}" for label, text in told_of if text)])


def name_of(function: Callable[..., Any]) -> str:
    """How a function is called in messages."""
    return str(getattr(function, "__qualname__", type(function).__qualname__)).replace("<locals>.", "").split(".")[-1]


def place_of(function: Callable[..., Any]) -> str:
    """``file:line, name`` of a function, as far as they are known."""
    code = getattr(inspect.unwrap(function), "__code__", None)
    return name_of(function) if code is None else f"{code.co_filename}:{code.co_firstlineno}, {name_of(function)}"


def listed(names: Iterable[str]) -> str:
    """``x, w and output``."""
    *most, last = list(names) or ["nothing"]
    return f"{', '.join(most)} and {last}" if most else last


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """`` (did you mean `x`?)``, or nothing."""
    close = difflib.get_close_matches(name, list(known), n=1, cutoff=0.5)
    return f" (did you mean `{close[0]}`?)" if close else ""


def told(value: object) -> str:
    """A value in few words: ``float32[3, 4]`` for a tensor, else its type.

    >>> import torch
    >>> told(torch.ones(3, 4)), told(None), told(1.5)
    ('float32[3, 4]', 'None', 'float')
    """
    if isinstance(value, Tensor):
        return f"{str(value.dtype).removeprefix('torch.')}{list(value.shape)}"
    return "None" if value is None else type(value).__name__
