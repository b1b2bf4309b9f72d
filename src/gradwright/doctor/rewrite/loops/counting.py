"""A ``while`` that counts: its variable, where it stops, its step."""

from __future__ import annotations

import ast

from gradwright.doctor.rewrite.loops.expressions import added, literal, names_of, number, what
from gradwright.doctor.rewrite.source_text import DeclinedError
from gradwright.doctor.source.seen import Seen
from gradwright.ground.syntax import dotted

_FLIPPED: dict[type[ast.cmpop], type[ast.cmpop]] = {ast.Lt: ast.Gt, ast.Gt: ast.Lt, ast.LtE: ast.GtE, ast.GtE: ast.LtE}
_RISING: dict[type[ast.cmpop], int] = {ast.Lt: 0, ast.LtE: 1}
_FALLING: dict[type[ast.cmpop], int] = {ast.Gt: 0, ast.GtE: -1}


def counting(node: ast.While, seen: Seen) -> tuple[str, ast.expr, int]:
    """The variable of a ``while`` that counts in its last statement, where it stops, and its step.

    Raises: DeclinedError, if it does not count, or its end changes.
    """
    test, counted = node.test, _counts(node.body[-1])
    if counted is None or not isinstance(test, ast.Compare) or len(test.ops) != 1:
        raise DeclinedError("a while loop whose number of rounds is not known beforehand")
    variable, step = counted
    left, right, operator = test.left, test.comparators[0], type(test.ops[0])
    if isinstance(right, ast.Name) and right.id == variable:
        left, right, operator = right, left, _FLIPPED.get(operator, operator)
    beyond = (_RISING if step > 0 else _FALLING).get(operator)
    if not isinstance(left, ast.Name) or left.id != variable or beyond is None:
        raise DeclinedError("a while loop whose number of rounds is not known beforehand")
    found = what(left, seen)
    if found is None or found.type != "int":
        raise DeclinedError(f"{variable} is not known to be an integer")
    names = [inner for inner in ast.walk(node) if isinstance(inner, ast.Name) and isinstance(inner.ctx, ast.Store)]
    bound = [inner.id for inner in names]
    if bound.count(variable) != 1 or names_of(right) & set(bound):
        raise DeclinedError("a while loop whose end changes while it runs")
    return variable, added(right, number(beyond)), step


def _counts(statement: ast.stmt) -> tuple[str, int] | None:
    """The name and the step of ``i += 2``, ``i = i + 2``."""
    value: ast.expr
    if isinstance(statement, ast.AugAssign) and isinstance(statement.target, ast.Name):
        variable, operator, value = statement.target.id, statement.op, statement.value
    elif (
        isinstance(statement, ast.Assign)
        and len(statement.targets) == 1
        and isinstance(statement.targets[0], ast.Name)
        and isinstance(statement.value, ast.BinOp)
        and dotted(statement.value.left) == statement.targets[0].id
    ):
        variable, operator, value = statement.targets[0].id, statement.value.op, statement.value.right
    else:
        return None
    step = literal(value)
    if not step or not isinstance(operator, (ast.Add, ast.Sub)):
        return None
    return variable, step if isinstance(operator, ast.Add) else -step
