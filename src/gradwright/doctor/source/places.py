"""Whose code is it? Frames and files of the user's, told from torch, the standard library and us."""

from __future__ import annotations

import ast
import functools
import inspect
import itertools
import linecache
import os
import sys
from pathlib import Path
from types import CodeType, FrameType

from gradwright.doctor.session.place import Location
from gradwright.ground.installed import STANDARD, is_installed

_OURS = str(Path(__file__).resolve().parents[2]) + os.sep


@functools.cache
def is_user_file(path: str) -> bool:
    """A file that is neither ours, nor installed, nor of the standard library, nor generated (``<string>``).

    What was typed into IPython is the user's, although it lies on no disk.
    """
    if path.startswith("<"):
        return path.startswith("<ipython-input-")
    path = os.path.realpath(path)
    return not (path.startswith((_OURS, *STANDARD)) or is_installed(path))


@functools.cache
def is_library_file(path: str) -> bool:
    """A file of an installed package other than torch and Gradwright: its Functions are judged too."""
    if path.startswith("<"):
        return False
    path = os.path.realpath(path)
    torch_file = getattr(sys.modules.get("torch"), "__file__", None) or "."
    torch_home = str(Path(torch_file).resolve().parent) + os.sep
    return is_installed(path) and not path.startswith((torch_home, _OURS))


@functools.cache
def home() -> str:
    """Where the script was started: asked once, before it can change directory."""
    return str(Path.cwd().resolve()) + os.sep


_given: dict[str, str] = {}


def relative(path: str) -> str:
    """The path as a report names it: relative to where the script was started, where it lies below.

    A link that lies there is named itself, wherever it leads to.
    """
    if path.startswith("<"):
        return path
    real, written = os.path.realpath(path), os.path.abspath(path)  # noqa: PTH100 - resolve() follows links
    # Where a folder before a ".." is a link, the path without both is another one.
    shown = written if written.startswith(home()) and os.path.realpath(written) == real else real
    shown = shown.removeprefix(home())
    if Path(path).is_absolute():
        _given.setdefault(shown, path)
    return shown


def name_in_code(path: str) -> str:
    """The file name that the code of a report's ``path`` carries: what ``relative`` was given first."""
    return _given.get(path) or (path if path.startswith("<") else str(Path(home()) / path))


def text_of_file(path: str) -> str:
    """The text of a file (or of code that put itself into ``linecache``, as notebooks do); "" if there is none."""
    return "".join(linecache.getlines(path))


def location_in(code: CodeType, instruction: int, line: int | None = None) -> Location:
    """The expression that an instruction of ``code`` belongs to, to the column where Python kept it."""
    positions = next(itertools.islice(code.co_positions(), instruction // 2, None), (line, None, None, None))
    first, last, column, end_column = positions
    path = relative(code.co_filename)
    if first is None or column is None or last is None or end_column is None:
        return Location(path, line or first or code.co_firstlineno)
    start = characters(code.co_filename, first, column)
    return Location(path, first, start + 1, last, characters(code.co_filename, last, end_column) + 1)


def line_in(code: CodeType, line: int) -> Location:
    """A whole line of the file that ``code`` is from, without its indentation."""
    text = linecache.getline(code.co_filename, line).rstrip()
    path = relative(code.co_filename)
    if not text:
        return Location(path, line)
    return Location(path, line, len(text) - len(text.lstrip()) + 1, line, len(text) + 1)


def characters(path: str, line: int, utf8_offset: int) -> int:
    """Python counts columns in UTF-8 bytes; people count characters."""
    text = linecache.getline(path, line)
    return utf8_offset if text.isascii() else len(text.encode()[:utf8_offset].decode(errors="replace"))


def user_frame(depth: int = 2, limit: int = 60) -> FrameType | None:
    """The innermost frame of the user's from ``depth`` callers up; of any library if there is none of the user's."""
    frame: FrameType | None = sys._getframe(depth)
    library = None
    while frame is not None and limit:
        path = frame.f_code.co_filename
        if is_user_file(path):
            return frame
        if library is None and is_library_file(path):
            library = frame
        frame, limit = frame.f_back, limit - 1
    return library


def definition(thing: object) -> Location:
    """Where a class or function is defined; line 1 of ``<unknown>`` if that can't be told (made by ``exec``).

    A class is looked for by its methods, and by ``inspect``, which parses the whole file each time, if it has none.
    """
    thing = inspect.unwrap(thing) if callable(thing) else thing  # once_differentiable wraps in a function of torch's
    if isinstance(thing, type) and (found := _around_its_methods(thing)) is not None:
        return found
    try:
        lines, first = inspect.getsourcelines(thing)  # type: ignore[arg-type]  # a class or function by contract
        path = inspect.getsourcefile(thing)  # type: ignore[arg-type]  # the same
    except (OSError, TypeError, IndentationError, SyntaxError):
        code = getattr(getattr(thing, "forward", thing), "__code__", None)
        if code is None:
            return Location("<unknown>", 1)
        return Location(relative(code.co_filename), code.co_firstlineno)
    for offset, text in enumerate(lines):
        if text.lstrip().startswith(("class ", "def ", "async def ")):
            column = len(text) - len(text.lstrip()) + 1
            return Location(
                relative(path or "<unknown>"), first + offset, column, first + offset, len(text.rstrip()) + 1
            )
    return Location(relative(path or "<unknown>"), first)


def _around_its_methods(cls: type) -> Location | None:
    """The innermost ``class`` statement of that name around a method of its own, in the text that the method is of."""
    for member in vars(cls).values():
        method = inspect.unwrap(getattr(member, "__func__", member)) if callable(member) else None
        code = getattr(method, "__code__", None)
        if not isinstance(code, CodeType):
            continue
        around = [
            first
            for name, first, last in _class_statements(text_of_file(code.co_filename))
            if name == cls.__name__ and first <= code.co_firstlineno <= last
        ]
        if around:
            return line_in(code, max(around))
    return None


@functools.lru_cache(maxsize=64)
def _class_statements(text: str) -> tuple[tuple[str, int, int], ...]:
    """The name, first and last line of each ``class`` statement; none where the text is no Python."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ()
    return tuple(
        (node.name, node.lineno, node.end_lineno or 0) for node in ast.walk(tree) if isinstance(node, ast.ClassDef)
    )


def body_of(code: CodeType) -> Location:
    """From the first line of a function's definition to the last line of its code."""
    last = max((line for _, _, line in code.co_lines() if line), default=code.co_firstlineno)
    return Location(relative(code.co_filename), code.co_firstlineno, 1, last)
