"""The text of cells as the other rooms read it: a file each, that imports what it uses.

NOTE [imports of other cells]: notebooks import in one cell and compute in others. What is known of a file's names comes
from its imports, so a cell's text gets those that it lacks: of the modules that its names are, now, in the user's
namespace. They stand at the end, where they move no line.
"""

from __future__ import annotations

import ast
import contextlib
import linecache
import sys
from collections.abc import Iterable, Iterator, Mapping
from types import ModuleType
from typing import Any

from gradwright.doctor.source.files import SourceFile, parse
from gradwright.doctor.source.places import text_of_file

_REMARK = "# imported in another cell:"


def read_cell(path: str) -> SourceFile | None:
    """A cell that ran, as IPython keeps it; None where that can't be read any more."""
    try:
        text = text_of_file(path)
        return parse(text.encode(), path) if text else None
    except (SyntaxError, UnicodeError, RecursionError, MemoryError):
        return None


def with_imports(file: SourceFile, namespace: Mapping[str, Any]) -> SourceFile:
    """See NOTE [imports of other cells]. ``file`` is not changed.

    >>> import math
    >>> print(with_imports(parse(b"y = m.sin(x)\\n", "cell"), {"m": math, "x": 3}).text, end="")
    y = m.sin(x)
    # imported in another cell:
    import math as m
    """
    used: set[str] = set()
    bound: set[str] = set()
    for node in ast.walk(file.tree):
        if isinstance(node, ast.Name):
            (used if isinstance(node.ctx, ast.Load) else bound).add(node.id)
        elif isinstance(node, ast.alias):
            bound.add(node.asname or node.name.split(".")[0])
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            bound.add(node.name)
    lines = [_import(name, namespace.get(name)) for name in sorted(used - bound)]
    lines = [line for line in lines if line]
    if not lines:
        return file
    text = file.text if file.text.endswith("\n") else file.text + "\n"
    return parse("\n".join([text + _REMARK, *lines, ""]).encode(), file.path)


def _import(name: str, value: Any) -> str:
    if not isinstance(value, ModuleType) or sys.modules.get(value.__name__) is not value:
        return ""
    return f"import {value.__name__}" + ("" if value.__name__ == name else f" as {name}")


@contextlib.contextmanager
def kept_as(files: Iterable[SourceFile]) -> Iterator[None]:
    """Inside, these texts are what ``inspect`` and ``linecache`` find under the names of the files."""
    before = {file.path: linecache.cache.get(file.path) for file in files}
    for file in files:
        linecache.cache[file.path] = (len(file.text), None, file.text.splitlines(keepends=True), file.path)
    try:
        yield
    finally:
        for path, entry in before.items():
            if entry is None:
                linecache.cache.pop(path, None)
            else:
                linecache.cache[path] = entry
