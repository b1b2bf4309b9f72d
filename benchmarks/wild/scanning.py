"""Every class of a source tree that derives from autograd.Function, found in its syntax."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

ROOTS = ("Function", "_SingleLevelFunction", "InplaceFunction")


def functions_in(folder: Path) -> dict[str, str]:
    """``path::Class`` to its source without docstrings; classes that derive from such a class of the same tree too."""
    classes = [(path, node) for path in sorted(folder.rglob("*.py")) for node in _classes(path)]
    found: dict[str, str] = {}
    known: set[str] = set()
    grown = True
    while grown:
        grown = False
        for path, node in classes:
            key = f"{path.relative_to(folder).as_posix()}::{node.name}"
            if key not in found and any(_is_function(base, known) for base in node.bases):
                found[key], grown = ast.unparse(_bare(node)), True
                known.add(node.name)
    return found


def _classes(path: Path) -> Iterator[ast.ClassDef]:
    text = path.read_text(errors="replace")
    if "Function" not in text or "backward" not in text:
        return
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError):  # Python 2, or a template
        return
    yield from (node for node in ast.walk(tree) if isinstance(node, ast.ClassDef))


def _is_function(base: ast.expr, known: set[str]) -> bool:
    name = ast.unparse(base)
    last = name.split(".")[-1]
    return name in ROOTS or name.endswith(".Function") or last in known


def _bare(node: ast.ClassDef) -> ast.ClassDef:
    for inner in ast.walk(node):
        if isinstance(inner, (ast.FunctionDef, ast.ClassDef)) and len(inner.body) > 1:
            first = inner.body[0]
            if (
                isinstance(first, ast.Expr)
                and isinstance(first.value, ast.Constant)
                and isinstance(first.value.value, str)
            ):
                inner.body = inner.body[1:]
    return node
