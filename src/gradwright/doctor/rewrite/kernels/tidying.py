"""A kernel's statements as one would write them by hand: no second name for an array that was just made."""

from __future__ import annotations

import ast

Blocks = ("body", "orelse")


def tidied(statements: list[ast.stmt], own: set[str]) -> list[ast.stmt]:
    """``row = np.empty(n, ...); h = row`` becomes ``h = np.empty(n, ...)``; ``own``: the kernel's names."""
    whole = ast.Module(statements, [])
    changed = True
    while changed:
        changed = any(_once(block, whole, own) for block in _blocks(whole))
    return whole.body


def _blocks(node: ast.AST) -> list[list[ast.stmt]]:
    return [
        block
        for one in ast.walk(node)
        for field in Blocks
        if isinstance(block := getattr(one, field, None), list) and block
    ]


def _once(block: list[ast.stmt], whole: ast.Module, own: set[str]) -> bool:
    for at, statement in enumerate(block):
        if not (isinstance(statement, ast.Assign) and isinstance(statement.value, ast.Name)):
            continue
        made, (target,) = statement.value.id, statement.targets
        if made not in own or not isinstance(target, ast.Name):
            continue
        first = next((i for i, one in enumerate(block[:at]) if _binds(one, made)), None)
        if first is None or _mentions(block[first:at], target.id):
            continue
        if _count(whole, made) != _count(ast.Module(block[first : at + 1], []), made):
            continue
        for one in block[first:at]:
            for node in ast.walk(one):
                if isinstance(node, ast.Name) and node.id == made:
                    node.id = target.id
        del block[at]
        return True
    return False


def _binds(statement: ast.stmt, name: str) -> bool:
    return isinstance(statement, ast.Assign) and any(
        isinstance(one, ast.Name) and one.id == name for one in statement.targets
    )


def _mentions(statements: list[ast.stmt], name: str) -> bool:
    return _count(ast.Module(statements, []), name) > 0


def _count(node: ast.AST, name: str) -> int:
    return sum(isinstance(one, ast.Name) and one.id == name for one in ast.walk(node))
