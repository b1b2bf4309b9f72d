"""One class of a changed file comes to life in a copy of its module's namespace; nothing else of the file runs."""

from __future__ import annotations

import ast
import inspect
import types
from collections.abc import Mapping
from typing import Any


class NotCompilableError(Exception):
    """The class can't be made; the message says why."""


def class_node(tree: ast.Module, name: str, lines: tuple[int, int]) -> ast.ClassDef:
    """The definition of class ``name`` around ``lines``. Raises: NotCompilableError if there is none."""
    first, last = lines
    for node in ast.walk(tree):
        if not isinstance(node, ast.ClassDef) or node.name != name:
            continue
        if node.lineno <= first and last <= (node.end_lineno or last):
            return node
    raise NotCompilableError(f"no class {name} around lines {first} to {last}" if name else "the change is in no class")


def make_class(
    tree: ast.Module, definition: ast.ClassDef, path: str, original: type, namespace: Mapping[str, object]
) -> Any:
    """Execute the class statement, decorators and all, where names mean what they mean to ``original``.

    Names that the original's methods close over keep their values. Raises: NotCompilableError.
    """
    future = [node for node in tree.body if isinstance(node, ast.ImportFrom) and node.module == "__future__"]
    module = ast.Module(body=[*future, definition], type_ignores=[])
    room = {**namespace, **closed_over(original)}
    try:
        code = compile(module, path, "exec", dont_inherit=True)
        exec(code, room)
    except Exception as error:
        raise NotCompilableError(f"the class can't be made alone: {type(error).__name__}: {error}") from error
    made = room[definition.name]
    if not callable(getattr(made, "apply", None)):
        raise NotCompilableError(f"{definition.name} is no Function once made")
    return made


def closed_over(original: type) -> dict[str, object]:
    """The variables of enclosing functions that the methods of a class use."""
    found: dict[str, object] = {}
    for member in vars(original).values():
        function = inspect.unwrap(getattr(member, "__func__", member)) if callable(member) or _wraps(member) else None
        if isinstance(function, types.FunctionType):
            for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
                if name != "__class__":
                    try:
                        found[name] = cell.cell_contents
                    except ValueError:  # not bound yet
                        continue
    return found


def _wraps(member: object) -> bool:
    return isinstance(member, staticmethod | classmethod)
