"""What a function uses from outside of itself."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from types import FunctionType, MethodType
from typing import Any


def named_outside(function: Callable[..., Any]) -> dict[str, Any]:
    """The globals and the closed-over variables that its code names, as far as they have a value yet.

    (``inspect.getclosurevars`` raises where one has none.)

    >>> factor = 3
    >>> named_outside(lambda x: factor * x)
    {'factor': 3}
    """
    target = function.__func__ if isinstance(function, MethodType) else function
    if not isinstance(target, FunctionType):
        return {}
    known = target.__globals__
    found = {name: known[name] for name in target.__code__.co_names if name in known}
    for name, cell in zip(target.__code__.co_freevars, target.__closure__ or (), strict=True):
        with suppress(ValueError):  # empty, up to now
            found[name] = cell.cell_contents
    return found
