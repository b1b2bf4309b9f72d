"""Walks over syntax trees. No torch is imported."""

from __future__ import annotations

import ast
from collections.abc import Iterator

_FRAMES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)


def own_nodes(root: ast.AST) -> Iterator[ast.AST]:
    """The nodes that run in the frame of ``root`` itself: nested functions and classes are left out.

    >>> tree = ast.parse("for x in y: f = lambda: inner")
    >>> sorted(node.id for node in own_nodes(tree.body[0]) if isinstance(node, ast.Name))
    ['f', 'x', 'y']
    """
    stack = [root]
    while stack:
        node = stack.pop()
        yield node
        stack.extend(child for child in ast.iter_child_nodes(node) if not isinstance(child, _FRAMES))


def dotted_names(node: ast.AST) -> list[str]:
    """``a.b.c`` as its names, the root first; empty for what is no dotted name.

    >>> dotted_names(ast.parse("torch.autograd.grad", mode="eval").body)
    ['torch', 'autograd', 'grad']
    >>> dotted_names(ast.parse("f().grad", mode="eval").body)
    []
    """
    names: list[str] = []
    while isinstance(node, ast.Attribute):
        names.append(node.attr)
        node = node.value
    return [node.id, *reversed(names)] if isinstance(node, ast.Name) else []


def dotted(node: ast.AST) -> str:
    """``self.weight`` for a name or attributes of one; "" for all else."""
    return ".".join(dotted_names(node))


def position(node: ast.AST) -> tuple[int, int]:
    """Where a statement or expression begins, as ``ast`` counts lines and columns."""
    return node.lineno, node.col_offset  # type: ignore[attr-defined]  # statements and expressions have them


def end_position(node: ast.AST) -> tuple[int, int]:
    """Where it ends."""
    return node.end_lineno or 0, node.end_col_offset or 0  # type: ignore[attr-defined]  # the same


def shortened(node: ast.AST) -> str:
    """The first line of its text, of at most 60 characters, as messages show it."""
    text = ast.unparse(node).split("\n")[0]
    return text if len(text) <= 60 else text[:57] + "..."
