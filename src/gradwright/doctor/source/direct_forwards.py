"""Functions whose ``forward`` is called directly, and whose ``apply`` never is: their backward takes no part."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from gradwright.doctor.source.files import SourceFile
from gradwright.doctor.source.statements import Origins, Placed, definitions, function_classes


@dataclass(frozen=True, slots=True)
class DirectCall:
    """The first direct call, and the class it is of."""

    file: SourceFile
    call: ast.Call
    defined_in: SourceFile
    placed: Placed


def direct_forwards(files: Iterable[SourceFile]) -> Iterator[DirectCall]:
    """One for each such class of the user's, told by its name over all files; a namesake's ``apply`` hides it.

    >>> from gradwright.doctor.source.files import parse
    >>> text = '''
    ... import torch
    ... class Cube(torch.autograd.Function):
    ...     @staticmethod
    ...     def forward(ctx, x): return x ** 3
    ...     @staticmethod
    ...     def backward(ctx, g): return g
    ... y = Cube.forward(None, 2.0)
    ... '''
    >>> [found.call.lineno for found in direct_forwards([parse(text.encode(), "a.py")])]
    [8]
    """
    files = list(files)
    classes: dict[str, tuple[SourceFile, Placed]] = {}
    inside: set[ast.AST] = set()
    for file in files:
        found = function_classes(file.tree, Origins(file.tree))
        for placed in definitions(file.tree):
            if placed.node in found:
                classes[placed.node.name] = (file, placed)
                inside.update(ast.walk(placed.node))
    applied: set[str] = set()
    calls: dict[str, tuple[SourceFile, ast.Call]] = {}
    for file in files:
        for node in ast.walk(file.tree):
            if isinstance(node, ast.Attribute) and node.attr == "apply":
                applied.add(_last(node.value))
            elif (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Attribute)
                and node.func.attr == "forward"
                and node not in inside
            ):
                calls.setdefault(_last(node.func.value), (file, node))
    for name, (file, call) in calls.items():
        if name in classes and name not in applied:
            yield DirectCall(file, call, *classes[name])


def _last(node: ast.expr) -> str:
    """The class's own name in ``Cube`` and ``layers.Cube``, called or not."""
    if isinstance(node, ast.Call):
        node = node.func
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""
