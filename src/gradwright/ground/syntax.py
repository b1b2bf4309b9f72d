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
