"""Live functions given other code for a while: how a function that is already defined comes to be watched."""

from __future__ import annotations

import contextlib
import gc
import sys
from collections.abc import Iterator, Sequence
from types import CodeType, FunctionType, ModuleType
from typing import Any

Namespace = dict[str, Any]


@contextlib.contextmanager
def exchanged_code(path: str, module: CodeType, marked: str, namespaces: Sequence[Namespace]) -> Iterator[int]:
    """Inside the ``with``, functions defined in the file ``path`` run the code that ``module`` holds for them.

    ``module``: the compiled file, changed but with every line where it was; only code that uses the global name
    ``marked`` (itself or in a function inside it) is exchanged. ``namespaces``: globals that functions of the file are
    known to have; those of modules of that file count as well. Yields how many functions were exchanged. Calls that
    are under way keep their code. Cost: the garbage collector looks once at what every object refers to, some 40 ms;
    see NOTE [found by their globals].

    >>> def double(x):
    ...     return 2 * x
    >>> code = double.__code__
    >>> text = "\\n" * (code.co_firstlineno - 1) + "def double(x):\\n    return 3 * x * one"
    >>> double.__globals__["one"] = 1
    >>> changed = compile(text, code.co_filename, "exec")
    >>> with exchanged_code(code.co_filename, changed, "one", [double.__globals__]):
    ...     double(2)
    6
    >>> double(2)
    4
    """
    fresh = {(code.co_qualname, code.co_firstlineno): code for code in _all_code(module) if _uses(code, marked)}
    names = {qualname for qualname, _ in fresh}
    changed: list[tuple[FunctionType, CodeType]] = []
    for function in _functions(path, namespaces):
        old = function.__code__
        new = fresh.get((old.co_qualname, old.co_firstlineno)) if old.co_qualname in names else None
        if new is not None and new.co_freevars == old.co_freevars:
            changed.append((function, old))
            function.__code__ = new
    try:
        yield len(changed)
    finally:
        for function, old in changed:
            function.__code__ = old


def give_back(path: str, module: CodeType, marked: str, namespaces: Sequence[Namespace]) -> int:
    """Functions defined in the file ``path`` whose code uses the global name ``marked`` get the code that ``module``
    holds for them, for good. Returns how many did. Cost: as above."""
    plain = {(code.co_qualname, code.co_firstlineno): code for code in _all_code(module)}
    given = 0
    for function in _functions(path, namespaces):
        old = function.__code__
        new = plain.get((old.co_qualname, old.co_firstlineno)) if _uses(old, marked) else None
        if new is not None and new.co_freevars == old.co_freevars:
            function.__code__ = new
            given += 1
    return given


def files_of_functions(namespaces: Sequence[Namespace]) -> set[str]:
    """The file names in the code of all functions that live and have one of ``namespaces``. Cost: as above."""
    return {function.__code__.co_filename for function in _with_globals(namespaces)}


def _functions(path: str, namespaces: Sequence[Namespace]) -> list[FunctionType]:
    modules = [vars(one) for one in list(sys.modules.values()) if isinstance(one, ModuleType)]
    of_file = [names for names in modules if names.get("__file__") == path]
    return [function for function in _with_globals([*namespaces, *of_file]) if function.__code__.co_filename == path]


def _with_globals(namespaces: Sequence[Namespace]) -> list[FunctionType]:
    """NOTE [found by their globals]: a list of all objects counts each one up and down, which in a forked process
    copies every page that holds one: 200 ms for 360,000 objects, 40 ms when only those that refer to a namespace are
    asked for. What was frozen, which a long process does with what it has loaded, is not looked at then. A function is
    younger than its globals: where these are found, as what refers to their own values, none of it is frozen."""
    each_once = list({id(names): names for names in namespaces}.values())  # every reference is compared with every one
    inside = [value for names in each_once for value in [*names.values()][:1]]
    found = gc.get_referrers(*each_once, *inside)
    seen = {id(thing) for thing in found}
    if not all(id(names) in seen for names in each_once) and gc.get_freeze_count():
        gc.collect()  # what is garbage by now would be kept for ever
        gc.unfreeze()
        try:
            found = gc.get_referrers(*each_once)
        finally:
            gc.freeze()
    namespaces_of = {id(names) for names in each_once}
    return [thing for thing in found if type(thing) is FunctionType and id(thing.__globals__) in namespaces_of]


def _all_code(code: CodeType) -> Iterator[CodeType]:
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield constant
            yield from _all_code(constant)


def _uses(code: CodeType, name: str) -> bool:
    return name in code.co_names or any(name in inner.co_names for inner in _all_code(code))
