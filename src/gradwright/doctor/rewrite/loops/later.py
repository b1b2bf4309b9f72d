"""What the text around a loop does that the loop itself does not show: later writes, and modes it runs in."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from gradwright.doctor.rewrite.loops.ir import Nest
from gradwright.doctor.rewrite.source_text import DeclinedError

_LOOPS = (ast.For, ast.AsyncFor, ast.While)


def written_later(around: ast.AST, nest: Nest) -> frozenset[str]:
    """Names that statements after the nest may write into: ``x[0] = 1``, ``x += 1``, ``x.zero_()``, ``out=x``.

    What stands before the nest counts where a loop around both comes back to it.
    """
    last = (nest.tail[-1] if nest.tail else nest.node).end_lineno or 0
    first = min([nest.node.lineno, *(loop.lineno for loop in _around(around, nest.node))])
    again = first < nest.node.lineno
    later = [
        node
        for node in ast.walk(around)
        if (line := getattr(node, "lineno", 0)) > last or (again and first <= line < nest.node.lineno)
    ]
    found = {name for node in later for name in _written(node)}
    second = [pair for node in later for pair in _second_names(node)]
    while more := {name for other, names in second if other in found for name in names} - found:
        found |= more
    return frozenset(found)


def check_around(tree: ast.Module, loop: ast.stmt) -> None:
    """Raises: DeclinedError, under autocast: products of whole matrices are taken in half precision there."""
    for node in ast.walk(tree):
        if not _holds(node, loop):
            continue
        heads: list[ast.expr] = []
        if isinstance(node, (ast.With, ast.AsyncWith)):
            heads = [item.context_expr for item in node.items]
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            heads = node.decorator_list
        if any("autocast" in ast.unparse(head) for head in heads):
            raise DeclinedError("it runs under autocast, which computes with whole tensors in another precision")


def _around(around: ast.AST, loop: ast.stmt) -> Iterator[ast.stmt]:
    return (node for node in ast.walk(around) if isinstance(node, _LOOPS) and node is not loop and _holds(node, loop))


def _holds(node: ast.AST, loop: ast.stmt) -> bool:
    first, last = getattr(node, "lineno", None), getattr(node, "end_lineno", None)
    return first is not None and last is not None and first < loop.lineno and last >= (loop.end_lineno or 0)


def _written(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.AugAssign):
        yield _root(node.target)
    elif isinstance(node, (ast.Subscript, ast.Attribute)) and not isinstance(node.ctx, ast.Load):
        yield _root(node)
    elif isinstance(node, ast.Call):
        function = node.func
        if isinstance(function, ast.Attribute) and function.attr.endswith("_") and not function.attr.endswith("__"):
            yield _root(function.value)
        yield from (_root(keyword.value) for keyword in node.keywords if keyword.arg == "out")


def _second_names(node: ast.AST) -> Iterator[tuple[str, set[str]]]:
    """``p`` and what it may be an element of: ``for p in parts``, ``p = parts[0]``."""
    if isinstance(node, (ast.For, ast.AsyncFor)):
        made, value = [node.target], node.iter
    elif isinstance(node, ast.Assign) and isinstance(node.value, (ast.Name, ast.Subscript, ast.Attribute, ast.Tuple)):
        made, value = node.targets, node.value
    else:
        return
    names = {inner.id for inner in ast.walk(value) if isinstance(inner, ast.Name)}
    yield from ((one.id, names) for target in made for one in ast.walk(target) if isinstance(one, ast.Name))


def _root(node: ast.AST) -> str:
    """The name at the bottom of ``x[0].data.mul_(2)``."""
    while isinstance(node, (ast.Subscript, ast.Attribute, ast.Call)):
        node = node.func if isinstance(node, ast.Call) else node.value
    return node.id if isinstance(node, ast.Name) else ""
