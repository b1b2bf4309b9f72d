"""``square = Square.apply`` in an earlier cell: calls through what was bound before the watching began, seen too.

NOTE [bound earlier]: such a method holds the very function that torch defined, so a stand-in under the name
``Function.apply`` is passed by. The function's own code is exchanged instead, for code that calls whatever stands under
that name; a twin with the old code does torch's work. From torch 2.14 on that function is written in C and has no code
that could be exchanged: then the Functions that are called in such a way are found, to be named in the report.
"""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator
from types import BuiltinMethodType, FunctionType, MethodType
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
    >>> double, torchs = Double.apply, Function.__dict__["apply"]
    >>> with bound_earlier_seen() as able:
    ...     able == (Function.__dict__["apply"] is not torchs)
    True
    >>> Function.__dict__["apply"] is torchs
    True
    """
    entry: Any = Function.__dict__["apply"]
    torchs: Any = getattr(entry, "__func__", None)
    code: Any = getattr(torchs, "__code__", None)
    closure: Any = getattr(torchs, "__closure__", None)
    if code is None or code.co_freevars != ("__class__",) or closure[0].cell_contents is not Function:
        yield False  # it is written in C, or someone's own stand-in
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


def find_bound_functions() -> list[type[Function]]:
    """The custom Functions of which a bound ``apply`` is held somewhere in this process, by name.

    Cost: one walk over all objects that Python's garbage collector knows, tens of milliseconds.

    >>> class Halve(Function):
    ...     @staticmethod
    ...     def forward(ctx, x):
    ...         return x / 2
    >>> halve = Halve.apply
    >>> Halve in find_bound_functions()
    True
    """
    found = {
        method.__self__
        for method in gc.get_objects()
        if type(method) in (BuiltinMethodType, MethodType)
        and isinstance(method.__self__, type)
        and issubclass(method.__self__, Function)
        and getattr(method, "__name__", "") == "apply"
    }
    return sorted(found, key=lambda cls: cls.__qualname__)
