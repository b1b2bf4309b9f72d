"""Names that a loop binds; integers that only grow in it, or only fall."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from typing import Literal

from gradwright.doctor.rewrite.loops.nodes import integer

Loop = ast.For | ast.While


def bound_names(statements: Sequence[ast.stmt]) -> set[str]:
    return {
        node.id
        for statement in statements
        for node in ast.walk(statement)
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load)
    }


def drift(name: str, body: Sequence[ast.stmt]) -> Literal[-1, 0, 1]:
    """1 for what ``body`` changes by ``name += 1`` and the like alone, -1 for ``name -= 1``, 0 for all else."""
    steps = [_step(one, name) for one in _statements(body) if name in _bound_by(one)]
    if steps and all(step > 0 for step in steps):
        return 1
    return -1 if steps and all(step < 0 for step in steps) else 0


def steps_once(name: str, body: Sequence[ast.stmt]) -> bool:
    """Whether no round of the loop changes the name by more than 1."""
    steps = [one for one in _statements(body) if name in _bound_by(one)]
    again = any(isinstance(one, Loop) and name in bound_names(one.body) for one in _statements(body))
    return len(steps) == 1 and abs(_step(steps[0], name)) == 1 and not again


def _statements(body: Sequence[ast.stmt]) -> Iterator[ast.stmt]:
    for statement in body:
        yield from (node for node in ast.walk(statement) if isinstance(node, ast.stmt))


def _bound_by(statement: ast.stmt) -> set[str]:
    """By the statement itself, not by those in it."""
    if isinstance(statement, ast.For):
        return bound_names([ast.Expr(statement.target)])
    if isinstance(statement, ast.While | ast.If):
        return set()
    return bound_names([statement])


def _step(statement: ast.stmt, name: str) -> int:
    if isinstance(statement, ast.AugAssign) and isinstance(statement.op, ast.Add | ast.Sub):
        return (integer(statement.value) or 0) * (1 if isinstance(statement.op, ast.Add) else -1)
    if isinstance(statement, ast.Assign) and isinstance(statement.value, ast.BinOp):
        value = statement.value
        if isinstance(value.op, ast.Add | ast.Sub) and isinstance(value.left, ast.Name) and value.left.id == name:
            return (integer(value.right) or 0) * (1 if isinstance(value.op, ast.Add) else -1)
    return 0
