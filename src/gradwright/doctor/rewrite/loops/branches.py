"""An ``if`` in its simplest form: an extremum, a flag, or one action for both arms."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from gradwright.doctor.rewrite.loops.actions import comparison
from gradwright.doctor.rewrite.loops.expressions import made, names_of, same_place
from gradwright.doctor.rewrite.loops.joining import adds_one, begins_with, is_none
from gradwright.doctor.rewrite.loops.tree import Action, Branch, Item, root


def simplest(test: ast.expr, then: list[Item], other: list[Item], node: ast.stmt) -> Item | None:
    """One item for the whole branch, if there is one."""
    best = extremum(test, then, other, node)
    if best is not None:
        guards, action = best
        return Branch(guard_of(guards), [action], [], node) if guards else action
    return flag(test, then, other, node) or begun(test, then, other) or merged(test, then, other, node)


def guard_of(guards: Sequence[ast.expr]) -> ast.expr:
    return guards[0] if len(guards) == 1 else made(ast.BoolOp(ast.And(), list(guards)))


def extremum(
    test: ast.expr, then: list[Item], other: list[Item], node: ast.stmt
) -> tuple[list[ast.expr], Action] | None:
    """``if v > best: best = v; arg = i``, with the other conditions it stands under."""
    if other or not all(isinstance(item, Action) and item.kind == "assign" for item in then):
        return None
    tests = test.values if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And) else [test]
    if not isinstance(tests[-1], ast.Compare) or len(tests[-1].ops) != 1:
        return None
    assigns = [item for item in then if isinstance(item, Action)]
    for action in assigns:
        found = comparison(tests[-1], action.target)
        if found is None or ast.dump(found[1]) != ast.dump(action.value):
            continue
        rest = [one for one in assigns if one is not action]
        reads = {inner for one in rest for value in one.expressions for inner in names_of(value)}
        inside = names_of(action.value) | {inner for index in action.target.indices for inner in names_of(index)}
        written = {root(one.target.base) for one in rest}
        if root(action.target.base) in reads or written & (reads | inside | {root(action.target.base)}):
            return None
        also = tuple((one.target, one.value) for one in rest)
        return list(tests[:-1]), Action("extremum", action.target, action.value, node, found[0], also)
    return None


def flag(test: ast.expr, then: list[Item], other: list[Item], node: ast.stmt) -> Action | None:
    """``if test: found = True`` is ``found = found or test``."""
    if other or len(then) != 1 or not isinstance(then[0], Action) or then[0].kind != "assign":
        return None
    action = then[0]
    boolean = isinstance(action.value, ast.Constant) and isinstance(action.value.value, bool)
    if not boolean or action.target.indices or action.target.base in names_of(test):
        return None
    assert isinstance(action.value, ast.Constant)
    term = test if action.value.value else made(ast.UnaryOp(ast.Not(), test))
    return Action("accumulate", action.target, term, node, "or" if action.value.value else "and")


def begun(test: ast.expr, then: list[Item], other: list[Item]) -> Action | None:
    """``if out is None: out = rows``, ``else: out = torch.cat([out, rows])`` appends rows."""
    if len(then) != 1 or len(other) != 1:
        return None
    one, two = then[0], other[0]
    if not isinstance(one, Action) or not isinstance(two, Action) or not same_place(one.target, two.target):
        return None
    nothing = is_none(test, one.target)
    first, later = (one, two) if nothing else (two, one)
    if nothing is None or (first.kind, later.kind) != ("assign", "append") or later.operator:
        return None
    return later if begins_with(first.value, later.value) else None


def merged(test: ast.expr, then: list[Item], other: list[Item], node: ast.stmt) -> Action | None:
    """One action for two arms that do the same to the same place."""
    if len(then) != 1 or len(other) != 1:
        return None
    one, two = then[0], other[0]
    if not isinstance(one, Action) or not isinstance(two, Action) or one.kind == "extremum":
        return None
    if (one.kind, one.operator) != (two.kind, two.operator) or not same_place(one.target, two.target):
        return None
    if one.kind == "append" and not (adds_one(one) and adds_one(two)):
        return None
    value = made(ast.IfExp(test, one.value, two.value))
    return Action(one.kind, one.target, value, node, one.operator)
