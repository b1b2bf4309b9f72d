"""A fault of ours must never become the script's: what we do inside its calls is guarded."""

from __future__ import annotations

import functools
import traceback
from collections.abc import Callable
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

OnFault = Callable[[str], None]


def guarded(call: Callable[P, T], on_fault: OnFault) -> Callable[P, T | None]:
    """``call``, but an exception in it goes to ``on_fault`` as text and gives ``None``.

    The polite stop passes through: it is a ``KeyboardInterrupt``, no ``Exception``.
    """

    @functools.wraps(call)
    def attempt(*args: P.args, **kwargs: P.kwargs) -> T | None:
        try:
            return call(*args, **kwargs)
        except Exception:
            on_fault(traceback.format_exc())
            return None

    return attempt
