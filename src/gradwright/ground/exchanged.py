"""Live functions given other code for a while: how a function that is already defined comes to be watched."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator
from types import CodeType, FunctionType
from typing import Any

Place = tuple[str, int]


@contextlib.contextmanager
def exchanged_code(path: str, module: CodeType, marked: str) -> Iterator[int]:
    """Inside the ``with``, functions defined in the file ``path`` run the code that ``module`` holds for them.

    ``module``: the compiled file, changed but with every line where it was; only code that uses the global name
    ``marked`` (itself or in a function inside it) is exchanged. Yields how many functions were. Calls that are under
    way keep their code. Cost: one walk over all objects of the process, some 10 ms.

    >>> def double(x):
    ...     return 2 * x
    >>> code = double.__code__
    >>> text = "\\n" * (code.co_firstlineno - 1) + "def double(x):\\n    return 3 * x * one"
    >>> double.__globals__["one"] = 1
    >>> with exchanged_code(code.co_filename, compile(text, code.co_filename, "exec"), "one"):
    ...     double(2)
    6
    >>> double(2)
    4
    """
    fresh = {(code.co_qualname, code.co_firstlineno): code for code in _all_code(module) if _uses(code, marked)}
    names = {qualname for qualname, _ in fresh}
    changed: list[tuple[FunctionType, CodeType]] = []
    for thing in _all_objects():
        if type(thing) is FunctionType and thing.__code__.co_filename == path:
            old = thing.__code__
            new = fresh.get((old.co_qualname, old.co_firstlineno)) if old.co_qualname in names else None
            if new is not None and new.co_freevars == old.co_freevars:
                changed.append((thing, old))
                thing.__code__ = new
    try:
        yield len(changed)
    finally:
        for function, old in changed:
            function.__code__ = old


def give_back(path: str, module: CodeType, marked: str) -> int:
    """Functions defined in the file ``path`` whose code uses the global name ``marked`` get the code that ``module``
    holds for them, for good. Returns how many did. Cost: as above."""
    plain = {(code.co_qualname, code.co_firstlineno): code for code in _all_code(module)}
    given = 0
    for thing in _all_objects():
        if type(thing) is FunctionType and thing.__code__.co_filename == path and _uses(thing.__code__, marked):
            old = thing.__code__
            new = plain.get((old.co_qualname, old.co_firstlineno))
            if new is not None and new.co_freevars == old.co_freevars:
                thing.__code__ = new
                given += 1
    return given


def files_of_functions() -> set[str]:
    """The file names in the code of all functions that live. Cost: as above."""
    return {thing.__code__.co_filename for thing in _all_objects() if type(thing) is FunctionType}


def _all_objects() -> list[Any]:
    """Those that were frozen too, which a long process does with what it has loaded, and which are not listed else."""
    if not gc.get_freeze_count():
        return gc.get_objects()
    gc.collect()  # what is garbage by now would be kept for ever
    gc.unfreeze()
    try:
        return gc.get_objects()
    finally:
        gc.freeze()


def _all_code(code: CodeType) -> Iterator[CodeType]:
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield constant
            yield from _all_code(constant)


def _uses(code: CodeType, name: str) -> bool:
    return name in code.co_names or any(name in inner.co_names for inner in _all_code(code))
