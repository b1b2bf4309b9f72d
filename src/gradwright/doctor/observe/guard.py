"""A fault of ours must never become the script's: what we do inside its calls is guarded."""

from __future__ import annotations

import functools
import linecache
import os
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import ParamSpec, TypeVar

from gradwright.errors import GradwrightError, UnsupportedTorch

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


_DOCTOR = str(Path(__file__).resolve().parents[1]) + os.sep
_CAPABILITIES = str(Path(__file__).resolve().parents[2] / "ground" / "torch_versions") + os.sep
# What our stand-ins call on the script's behalf: by these names, so that what it raises is known for the script's.
_HANDED_ON = ("original(", "execute(", "exec(", "compile(", "find(", "runpy.")


def is_own_fault(error: BaseException) -> bool:
    """Whether an exception that ended a script comes from the doctor's own code, called inside the script's.

    Its innermost frame is then the doctor's, and the expression there is no call that was handed on for the script.
    ``SyntaxError`` is always the script's, ``GradwrightError`` the answer to a wrong use of ours.

    >>> try:
    ...     1 / 0
    ... except ZeroDivisionError as raised:
    ...     is_own_fault(raised)
    False
    """
    if not isinstance(error, Exception) or isinstance(error, (SyntaxError, GradwrightError)):
        return isinstance(error, UnsupportedTorch) and _asks_for_torchs_parts(error)
    innermost = (traceback.extract_tb(error.__traceback__) or [None])[-1]
    if innermost is None or not innermost.filename.startswith(_DOCTOR):
        return False
    line = linecache.getline(innermost.filename, innermost.lineno or 0).encode()
    return not line[innermost.colno or 0 :].decode(errors="replace").startswith(_HANDED_ON)


def _asks_for_torchs_parts(error: BaseException) -> bool:
    """Whether it was the doctor that asked for what this torch lacks: a library function that the script called may
    have done so too."""
    frames = [frame.filename for frame in traceback.extract_tb(error.__traceback__)]
    outside = [name for name in frames if not name.startswith(_CAPABILITIES)]
    return bool(outside) and outside[-1].startswith(_DOCTOR)
