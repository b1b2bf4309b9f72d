"""``square = Square.apply`` in an earlier cell: calls through what was bound before the watching began, seen too.

NOTE [bound earlier]: such a method holds the very function that torch defined, so a stand-in under the name
``Function.apply`` is passed by. The function's own code is exchanged instead, for code that calls whatever stands under
that name; a twin with the old code does torch's work.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from types import FunctionType
from typing import Any

from torch.autograd import Function


def _handing_on(__class__: Any) -> Any:
    def apply(cls: Any, *args: Any, **kwargs: Any) -> Any:
        return __class__.__dict__["apply"].__func__(cls, *args, **kwargs)

    return apply


@contextlib.contextmanager
def bound_earlier_seen() -> Iterator[bool]:
    """Inside, bound ``apply`` methods reach what stands in for ``Function.apply``; yields whether that could be done.

    Whoever puts a stand-in there does it inside, and takes it off there. Cost: a call that was bound earlier costs 0.3
    microseconds more.

    >>> class Double(Function):
    ...     @staticmethod
    ...     def forward(ctx, x):
    ...         return 2 * x
    >>> double = Double.apply
    >>> with bound_earlier_seen():
    ...     double.__func__.__code__.co_filename == __file__
    True
    >>> double.__func__.__code__.co_filename == __file__
    False
    """
    entry: Any = Function.__dict__["apply"]
    torchs = entry.__func__
    code, closure = torchs.__code__, torchs.__closure__
    if code.co_freevars != ("__class__",) or closure[0].cell_contents is not Function:
        yield False  # another torch, or someone's own stand-in
        return
    twin = FunctionType(code, torchs.__globals__, torchs.__name__, torchs.__defaults__, closure)
    twin.__kwdefaults__, twin.__doc__, twin.__qualname__ = torchs.__kwdefaults__, torchs.__doc__, torchs.__qualname__
    Function.apply = classmethod(twin)  # type: ignore[method-assign, assignment]  # as NOTE [bound earlier] says
    torchs.__code__ = _handing_on(Function).__code__
    try:
        yield True
    finally:
        torchs.__code__ = code
        Function.apply = entry  # type: ignore[method-assign]  # as it was
