"""The loops of functions that are already defined, watched while they run: what ``gw.diagnose`` is given."""

from __future__ import annotations

import builtins
import contextlib
import inspect
import types
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import torch

from gradwright.doctor.observe.loops import LoopWatch
from gradwright.doctor.source.entered import loop_uses
from gradwright.doctor.source.files import SourceFile, parse, read
from gradwright.doctor.source.loops import find_loops
from gradwright.doctor.source.places import is_user_file, text_of_file
from gradwright.doctor.source.transform import HOOK_NAME, instrument
from gradwright.ground.exchanged import exchanged_code

_DEPTH = 3  # functions that functions call by the names of their module, so deep


@contextlib.contextmanager
def watched_loops(thing: Any, watch: LoopWatch) -> Iterator[tuple[SourceFile, ...]]:
    """Inside the ``with``, the loops of what ``thing`` calls in the user's files are entered under ``watch``.

    ``thing``: a function, method, module or Function class. Yields the files. Functions have their own code back
    afterwards. A file whose text can't be read (made by ``exec``, changed since) goes unwatched.
    Cost: a parse of each file and a walk over the objects of the process.
    """
    namespaces = _files_of(thing)
    files = tuple(file for path in sorted(namespaces) if (file := _text(path)) is not None)
    before = getattr(builtins, HOOK_NAME, None)
    with contextlib.ExitStack() as stack:
        setattr(builtins, HOOK_NAME, watch)
        stack.callback(_restore, before)
        for file in files:
            sites = find_loops(file)
            base = watch.add(loop_uses(file, sites))
            code = compile(instrument(file, sites, base=base), file.path, "exec", dont_inherit=True)
            stack.enter_context(exchanged_code(file.path, code, HOOK_NAME, namespaces[file.path]))
        yield files
        watch.closed = True


def has_loops(function: Any) -> bool:
    """Whether a plain function, or what it calls by name in its own file, holds a loop that could be array code."""
    called = [one for one in _functions_of(function) if is_user_file(one.__code__.co_filename)]
    called += [one for mine in called for named in _named(mine) for one in _functions_of(named)]
    for one in called:
        file = _text(one.__code__.co_filename)
        if file and any(site.function == one.__code__.co_qualname for site in find_loops(file)):
            return True
    return False


def _restore(before: Any) -> None:
    if before is None:
        delattr(builtins, HOOK_NAME)
    else:
        setattr(builtins, HOOK_NAME, before)


def _text(path: str) -> SourceFile | None:
    try:
        return read(path) if Path(path).is_file() else parse(text_of_file(path).encode(), path)
    except (OSError, SyntaxError, UnicodeError, RecursionError, MemoryError):
        return None


def _files_of(thing: Any) -> dict[str, list[dict[str, Any]]]:
    """The user's files that hold what ``thing`` calls, as far as names of modules lead, with the globals there."""
    files: dict[str, list[dict[str, Any]]] = {}
    seen: set[int] = set()
    front: Sequence[types.FunctionType] = list(_functions_of(thing))
    for _ in range(_DEPTH):
        called: list[types.FunctionType] = []
        for function in front:
            if id(function) in seen or not is_user_file(function.__code__.co_filename):
                continue
            seen.add(id(function))
            files.setdefault(function.__code__.co_filename, []).append(function.__globals__)
            for value in (*_named(function), *_closed_over(function)):
                called += _functions_of(value)
        front = called
    return files


def _functions_of(thing: Any) -> Iterator[types.FunctionType]:
    """The Python functions that a call of ``thing`` may run."""
    thing = inspect.unwrap(thing) if callable(thing) and not isinstance(thing, torch.nn.Module) else thing
    if isinstance(thing, types.FunctionType):
        yield thing
    elif isinstance(thing, types.MethodType):
        yield from _functions_of(thing.__func__)
    elif isinstance(thing, torch.nn.Module):
        for module in thing.modules():
            yield from _functions_of(type(module))
    elif isinstance(thing, type):
        for member in vars(thing).values():
            function = getattr(member, "__func__", member)
            if isinstance(function, types.FunctionType):
                yield from _functions_of(function)
    elif hasattr(thing, "func") and callable(thing.func):  # functools.partial
        yield from _functions_of(thing.func)
    elif callable(thing) and hasattr(type(thing), "__call__") and not isinstance(thing, types.BuiltinFunctionType):  # noqa: B004 - the method itself is wanted
        function = type(thing).__call__
        if isinstance(function, types.FunctionType):
            yield function


def _named(function: types.FunctionType) -> Iterator[Any]:
    for name in function.__code__.co_names:
        value = function.__globals__.get(name)
        if isinstance(value, (types.FunctionType, type, torch.nn.Module)):
            yield value


def _closed_over(function: types.FunctionType) -> Iterator[Any]:
    for cell in function.__closure__ or ():
        with contextlib.suppress(ValueError):  # not bound yet
            yield cell.cell_contents
