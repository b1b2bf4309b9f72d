"""The learner's file: run as a module, its exceptions told with the learner's own line."""

from __future__ import annotations

import contextlib
import importlib.util
import linecache
import os
import re
import sys
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType, TracebackType
from typing import Any, TypeVar

from gradwright.errors import GradwrightError
from gradwright.exercises.outcome import NotYet

T = TypeVar("T")


def load(file: Path) -> ModuleType:
    """Run the file, by its stem for a name, so that ``if __name__ == "__main__"`` is left out.

    Its folder can be imported from, as for a script. Raises: NotYet.
    """
    name = file.stem if file.stem.isidentifier() and file.stem not in sys.modules else f"exercise_{file.stem}"
    linecache.checkcache(str(file))
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise NotYet(f"{file.name} is no Python file", do="let its name end in .py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    sys.path.insert(0, str(file.parent.resolve()))
    wrote_bytecode, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    try:
        loader = spec.loader
        guarded(lambda: loader.exec_module(module), "running the file", file)
    finally:
        sys.dont_write_bytecode = wrote_bytecode
        sys.path.remove(str(file.parent.resolve()))
        sys.modules.pop(name, None)
    return module


def named(module: ModuleType, name: str, file: Path) -> Any:
    """Raises: NotYet, with what the file defines instead."""
    if hasattr(module, name):
        return getattr(module, name)
    own = [
        other
        for other, value in vars(module).items()
        if not other.startswith("_") and getattr(value, "__module__", "") == module.__name__
    ]
    raise NotYet(
        f"the file defines no {name}",
        where=file.name,
        why=f"it defines {', '.join(own)}" if own else "",
        do=f"call yours {name}: that is what is graded",
    )


def guarded(work: Callable[[], T], during: str, file: Path, called: str = "") -> T:
    """Do it; whatever the learner's code raises becomes NotYet, with the learner's line.

    ``called``: how the graded function is called, for a signature that does not fit.
    """
    try:
        return work()
    except NotYet:
        raise
    except SyntaxError as error:
        line = f"{Path(error.filename or file.name).name}:{error.lineno}"
        raise NotYet(
            f"the file is not Python: {error.msg}",
            where=f"{line}: {(error.text or '').strip()}",
            do="mend the line, or the one before it",
        ) from None
    except SystemExit as error:
        raise NotYet(
            f"{during} called sys.exit({error.code!r})",
            where=place(error.__traceback__, file),
            do="take that out: whoever calls a function goes on afterwards",
        ) from None
    except Exception as error:
        raise _told(error, during, file, called) from None


def _told(error: Exception, during: str, file: Path, called: str) -> NotYet:
    where = place(error.__traceback__, file)
    first = next(iter(str(error).splitlines()), "")
    what = f"{during} raised {type(error).__name__}" + (f": {first}" if first else "")
    if isinstance(error, GradwrightError) and (parts := _parts(str(error))):
        return NotYet(what, where=where, why=parts.get("why", ""), do=parts.get("do", ""))
    if isinstance(error, NotImplementedError) and where and not first:
        return NotYet(
            "this is still the stub: it raises NotImplementedError",
            where=where,
            do="write your code in its place; --hint gives a first hint",
        )
    if isinstance(error, TypeError) and not where and called:
        why, do = f"it is called as {called}", "take these arguments, in this order"
        if left_out := _left_out(first):
            return NotYet(what, why=f"{why}, here without {left_out}", do=f"{do}; what may be left out has a default")
        return NotYet(what, why=why, do=do)
    if isinstance(error, (ImportError, AttributeError)) and "running the file" in during:
        return NotYet(what, where=where, do="is the name spelt right, and what it comes from installed?")
    if isinstance(error, RecursionError):
        return NotYet(what, where=where, do="it calls itself without an end: look for the call that does not stop")
    return NotYet(what, where=where, do="" if where else f"run it alone: python -i {file.name}")


def _left_out(message: str) -> str:
    """
    >>> _left_out("huber() missing 1 required positional argument: 'delta'")
    "'delta'"
    """
    found = re.search(r"missing \d+ required positional arguments?: (.*)", message)
    return found[1] if found else ""


def _parts(message: str) -> dict[str, str]:
    """What a message of ours says behind its first line, by ``why`` and ``do``; a line without a name goes on."""
    found: dict[str, str] = {}
    name = ""
    for line in message.splitlines()[1:]:
        begun = re.match(r"  (\w+)  +(.*)", line)
        name, more = (begun[1], begun[2]) if begun else (name, line.strip())
        found[name] = f"{found[name]} {more}" if name in found else more
    return {name: text for name, text in found.items() if name in ("why", "do")}


def place(trace: TracebackType | None, file: Path) -> str:
    """The innermost line of the learner's in a traceback; "" if there is none.

    ``exercise_05_huber.py:12, in huber: return error ** 2``
    """
    mine = [frame for frame in traceback.extract_tb(trace) if _same(frame.filename, file)]
    if not mine:
        return ""
    last = mine[-1]
    inside = "" if last.name == "<module>" else f", in {last.name}"
    return f"{file.name}:{last.lineno}{inside}" + (f": {last.line}" if last.line else "")


def _same(name: str, file: Path) -> bool:
    return os.path.realpath(name) == os.path.realpath(file)


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """What is printed inside goes nowhere: a function that is called some hundred times says the same thing."""
    with (
        open(os.devnull, "w", encoding="utf-8") as nowhere,
        contextlib.redirect_stdout(nowhere),
        contextlib.redirect_stderr(nowhere),
    ):
        yield
