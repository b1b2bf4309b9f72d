"""Statements under conditions that write the same elements one after the other: one value for all of them.

    y = x.clone()
    for i in range(len(x)):
        if x[i] < low:
            y[i] = low
        elif x[i] > high:
            y[i] = high

is ``y[i] = low if x[i] < low else high if x[i] > high else x[i]``, so that nobody needs the clone.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Sequence
from dataclasses import dataclass, replace

from gradwright.doctor.rewrite.loops import nodes
from gradwright.doctor.rewrite.loops.expressions import made as anew
from gradwright.doctor.rewrite.loops.expressions import same, subscript
from gradwright.doctor.rewrite.loops.ir import Place, Statement, Step, Vector
from gradwright.doctor.rewrite.loops.stretches import stretch_of
from gradwright.doctor.rewrite.loops.targets import Made, find_made
from gradwright.doctor.rewrite.loops.untouched import copied_from
from gradwright.doctor.rewrite.loops.value import kind_of
from gradwright.doctor.rewrite.loops.writing import Writer
from gradwright.doctor.rewrite.source_text import DeclinedError

_LARGE = 80  # nodes of an expression that is better two lines


@dataclass(frozen=True)
class _Part:
    """One statement: ``value`` where ``guards`` hold."""

    guards: tuple[ast.expr, ...]
    value: ast.expr


def next_step(writer: Writer, left: Sequence[Step]) -> tuple[Step, list[Step]]:
    """The first step, or one in the place of it and of others that write the same elements; and what is left."""
    first, *rest = left
    members = _members(writer, first, rest) if isinstance(first, Vector) else []
    for count in range(len(members), 0, -1):
        joined = _joined(writer, members[:count])
        if joined is not None:
            return joined, [one for one in rest if one not in members[:count]]
    return first, rest


def _members(writer: Writer, first: Vector, rest: Sequence[Step]) -> list[Vector]:
    """``first`` and what follows it and writes the same elements of a buffer that nobody else has seen."""
    target = first.statement.target
    if not _writes_elements(first) or target.base in writer.context.temporaries or writer.made(target.base) is None:
        return []
    found, between = [first], set[str]()
    for step in rest:
        if not isinstance(step, Vector):
            break
        other = step.statement
        if _writes_elements(step) and other.target.base == target.base:
            reads = {name for node in (other.value, *other.guards) for name in nodes.names_in(node)}
            if not same(other.target.node, target.node) or step.axes != first.axes or reads & between:
                break
            found.append(step)
            continue
        if target.base in _names(other) or find_made(writer.context.frame, writer.at, other.target.base) is None:
            break
        between.add(other.target.base)
    return found


def _writes_elements(step: Vector) -> bool:
    return step.role == "map" and step.statement.kind == "assign" and bool(step.statement.target.indices)


def _names(statement: Statement) -> set[str]:
    parts = [statement.value, *statement.guards, *statement.target.indices, *(value for _, value in statement.also)]
    return {name for part in parts for name in nodes.names_in(part)} | {statement.target.base}


def _joined(writer: Writer, members: Sequence[Vector]) -> Vector | None:
    """None where one of them alone is as good, or they have no form together."""
    first, last = members[0].statement, members[-1].statement
    made = writer.made(first.target.base)
    assert made is not None
    copied = copied_from(writer, made)
    guarded = [one for one in members if one.statement.guards]
    if not guarded or (len(members) == 1 and not copied):
        return None
    old = _old(first, made, copied)
    try:
        stretch = stretch_of(writer, first.target, members[0].axes)
        if stretch is None or not stretch.whole or stretch.flips or stretch.places:
            return None
        value = _choice([_part(one.statement) for one in members], first.target, old)
        if value is None or sum(1 for _ in ast.walk(value)) > _LARGE:
            return None
        seen = writer.lowered(stretch.order, lambda low: low.expression(value), stretch.sure)
    except DeclinedError:
        return None
    bounded = [one for one in members[1:] if _reads(_part(one.statement), first.target)]
    cut = kind_of(stretch.dtype) < kind_of(seen.dtype)  # each by itself, as it is written
    if cut or (bounded and not _is_clamp(seen.node)) or (copied and seen.dtype != stretch.dtype):
        return None
    node = copy.copy(first.node)
    node.end_lineno = last.node.end_lineno
    return replace(members[0], statement=replace(first, value=value, guards=(), node=node))


def _old(statement: Statement, made: Made, copied: str) -> ast.expr | None:
    """What the element holds before the first of them."""
    if copied:
        base = ast.parse(copied, mode="eval").body
        return subscript(anew(_without_place(base)), statement.target.indices)
    if isinstance(made.fill, int) or (made.fill is not None and abs(made.fill) < float("inf")):
        return anew(nodes.constant(made.fill))
    return None


def _without_place(node: ast.expr) -> ast.expr:
    for inner in ast.walk(node):
        for field in ("lineno", "col_offset", "end_lineno", "end_col_offset"):
            if hasattr(inner, field):
                delattr(inner, field)
    return node


def _is_clamp(node: ast.expr) -> bool:
    ways = [node.body, node.orelse] if isinstance(node, ast.IfExp) else [node]
    return any(
        isinstance(one, ast.Call) and isinstance(one.func, ast.Attribute) and one.func.attr == "clamp" for one in ways
    )


def _part(statement: Statement) -> _Part:
    return _Part(tuple(part for guard in statement.guards for part in _conjuncts(guard)), statement.value)


def _reads(part: _Part, place: Place) -> bool:
    return any(place.base in nodes.names_in(node) for node in (part.value, *part.guards))


def _conjuncts(guard: ast.expr) -> list[ast.expr]:
    if isinstance(guard, ast.BoolOp) and isinstance(guard.op, ast.And):
        return [part for value in guard.values for part in _conjuncts(value)]
    return [guard]


def _choice(parts: Sequence[_Part], place: Place, old: ast.expr | None) -> ast.expr | None:
    """The value after all parts, of which a later one wins; an ``elif`` is the other side of its ``if``."""
    current, left = old, list(parts)
    while left:
        if _reads(left[0], place):
            left[0] = _after(left[0], place, current)
        if not left[0].guards:
            current = left.pop(0).value
            continue
        test = _test(left[0].guards[0])[0]
        sides: dict[bool, list[_Part]] = {True: [], False: []}
        while left and left[0].guards and same(_test(left[0].guards[0])[0], test):
            part = left.pop(0)
            sides[_test(part.guards[0])[1]].append(_Part(part.guards[1:], part.value))
        then, other = (_choice(sides[holds], place, current) for holds in (True, False))
        if then is None or other is None:
            return None
        current = anew(ast.IfExp(test, then, other))
    return current


def _after(part: _Part, place: Place, current: ast.expr | None) -> _Part:
    """``if y[i] > c: y[i] = c``, with what y[i] is by then. Raises: DeclinedError, if it reads more of y than that."""
    if current is None:
        raise DeclinedError(f"{place.base} is read before it is written")
    guards = tuple(_replaced(guard, place, current) for guard in part.guards)
    changed = _Part(guards, _replaced(part.value, place, current))
    if _reads(changed, place):
        raise DeclinedError(f"{place.base} is read at other elements, too")
    return changed


def _test(guard: ast.expr) -> tuple[ast.expr, bool]:
    """A condition without its ``not``, and whether it has to hold."""
    holds = True
    while isinstance(guard, ast.UnaryOp) and isinstance(guard.op, ast.Not):
        guard, holds = guard.operand, not holds
    return guard, holds


def _replaced(node: ast.expr, place: Place, by: ast.expr) -> ast.expr:
    class Replaced(ast.NodeTransformer):
        def visit_Subscript(self, inner: ast.Subscript) -> ast.AST:  # ast's own name for it
            return by if same(inner, place.node) else self.generic_visit(inner)

    return Replaced().visit(copy.deepcopy(node))  # type: ignore[no-any-return]  # an expression for an expression
