"""Every iteration writes its own element: one assignment to the whole, or to the stretch that the loops cover."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from gradwright.doctor.rewrite.loops import nodes
from gradwright.doctor.rewrite.loops.becoming import become, become_again, same_form
from gradwright.doctor.rewrite.loops.calls import first_wins
from gradwright.doctor.rewrite.loops.ir import Vector
from gradwright.doctor.rewrite.loops.layout import may_be_turned
from gradwright.doctor.rewrite.loops.lowering import Lowering
from gradwright.doctor.rewrite.loops.ownership import is_view
from gradwright.doctor.rewrite.loops.stretches import IDENTITY, OPERATORS, Stretch, stretch_of
from gradwright.doctor.rewrite.loops.targets import Made, used_between
from gradwright.doctor.rewrite.loops.value import Value, fitted, kind_of
from gradwright.doctor.rewrite.loops.writing import Writer
from gradwright.doctor.rewrite.source_text import DeclinedError


def write_map(writer: Writer, vector: Vector) -> None:
    statement = vector.statement
    stretch = stretch_of(writer, statement.target, vector.axes)
    if stretch is None:
        _write_at_table(writer, vector)
        return
    made = writer.made(stretch.base) if stretch.whole else None
    guarded = bool(statement.guards) or any(writer.lowering(vector.axes).spans.triangular(loop) for loop in vector.axes)
    adds = statement.kind == "accumulate" and not (
        made is not None and made.fill == IDENTITY.get(statement.operator) and statement.operator in "+*"
    )

    def value_of(low: Lowering) -> Value:
        conditions = guards_of(writer, low, vector)
        value = under_all(low, conditions, statement.value)
        if adds:
            old = _current(low, stretch)
            if statement.operator in ("min", "max"):
                return chosen(low, conditions, first_wins(low, statement.operator, old, value), old)
            if not conditions:
                return value
            neutral = number_value(IDENTITY[statement.operator])
            part = in_triangle(low, vector, value) if statement.operator in "+-" else None
            return part or chosen(low, conditions, value, neutral)
        if not conditions:
            return value
        fill = made.fill if made is not None and stretch.whole else None
        if fill == 0 and (part := in_triangle(low, vector, value)) is not None:
            return part
        if fill is None and kind_of(stretch.dtype) == 1 and kind_of(value.dtype) > 1:
            raise DeclinedError(f"{stretch.base} holds integers, some of which become numbers with fewer digits")
        old = number_value(fill) if fill is not None else _current(low, stretch)
        return chosen(low, conditions, value, old)

    value = writer.lowered(stretch.order, value_of, stretch.sure)
    if adds and statement.operator not in ("min", "max"):
        write_added(writer, stretch, value, statement.operator)
    else:
        keeps_old = guarded and (made is None or made.fill is None)
        store(writer, stretch, value, made, keeps_old=keeps_old or not _fills_rows(writer, stretch, statement.value))


def _fills_rows(writer: Writer, stretch: Stretch, node: ast.expr) -> bool:
    """Whether one iteration's value was as long as the row that it is written into, not one element for all of it."""
    live, seen = writer.context.seen.live_ins.get(stretch.base), writer.context.seen.of(node)
    if not stretch.cell or live is None or live.tensor is None or seen is None or seen.tensor is None:
        return True
    places = stretch.places or range(len(live.tensor.shape))
    row = [size for place, size in zip(places, live.tensor.shape, strict=True) if place >= len(stretch.order)]
    return sorted(row) == sorted(seen.tensor.shape)


def guards_of(writer: Writer, low: Lowering, vector: Vector) -> list[tuple[Value, bool]]:
    """What must hold in an iteration: the guards, and that a triangle's loops reach there."""
    found = []
    for loop in vector.axes:
        for bound, sign in (
            (loop.start, ast.GtE() if loop.step > 0 else ast.LtE()),
            (loop.stop, ast.Lt() if loop.step > 0 else ast.Gt()),
        ):
            linear = low.spans.linear(bound)
            if linear is not None and linear.coefficients:
                compared = ast.Compare(nodes.name(loop.variable), [sign], [bound])
                found.append((low.condition(compared), True))
    return found + writer.conditions(low, vector.statement)


def in_triangle(low: Lowering, vector: Vector, value: Value) -> Value | None:
    """``value.triu(1)``, where the loops run over such a triangle and nothing else is asked; 0 outside of it."""
    found = low.spans.triangle(vector.axes)
    if found is None or vector.statement.guards or value.cell or value.domain or value.boolean:
        return None
    verb, diagonal, outer, inner = found
    if value.axes[-2:] == (inner, outer):
        verb, diagonal = ("tril" if verb == "triu" else "triu"), -diagonal
    elif value.axes[-2:] != (outer, inner):
        return None
    return value.with_node(nodes.method(value.node, verb, *([nodes.constant(diagonal)] if diagonal else [])))


def under_all(low: Lowering, conditions: Sequence[tuple[Value, bool]], node: ast.expr) -> Value:
    low.guards.extend(conditions)
    try:
        return low.expression(node)
    finally:
        del low.guards[len(low.guards) - len(conditions) :]


def chosen(low: Lowering, conditions: Sequence[tuple[Value, bool]], value: Value, other: Value) -> Value:
    if not conditions:
        return value
    if len(conditions) == 1:
        ((condition, truth),) = conditions
    else:
        sides = [one if holds else low.negated(one) for one, holds in conditions]
        condition, truth = low.both(sides, ast.And()), True
    return low.where(condition, value, other) if truth else low.where(condition, other, value)


def _current(low: Lowering, stretch: Stretch) -> Value:
    """What the stretch holds now."""
    if stretch.places or stretch.flips:
        raise DeclinedError(f"{stretch.base} is written backwards or a column at a time, under a condition")
    return Value(
        stretch.node,
        stretch.order,
        stretch.cell,
        False,
        stretch.dtype,
        sure=stretch.sure,
        carriers=frozenset({stretch.base}),
    )


def number_value(value: int | float | None) -> Value:
    assert value is not None
    if value in (float("inf"), float("-inf")):
        node = nodes.call(nodes.name("float"), ast.Constant(str(value)))
        return Value(node, number=True, dtype="float")
    return Value(nodes.constant(value), number=True, dtype="int" if isinstance(value, int) else "float")


def _fits(value: Value, stretch: Stretch) -> ast.expr:
    if value.cell > stretch.cell:
        raise DeclinedError(f"{stretch.base} is given more than it has room for")
    node = fitted(value, stretch.order, stretch.cell)
    if stretch.places and (value.axes or value.cell):
        if value.axes != stretch.order or value.cell != stretch.cell or stretch.flips:
            raise DeclinedError(f"{stretch.base} is written a column at a time")
        if len(stretch.places) == 2:
            return nodes.attribute(node, "T")
        return nodes.method(node, "permute", *map(nodes.constant, stretch.places))
    flips = [axis - len(stretch.order) - stretch.cell for axis in stretch.flips]
    flips = [axis for axis in flips if stretch.order[axis + len(stretch.order) + stretch.cell] in value.axes]
    return nodes.method(node, "flip", *map(nodes.constant, flips)) if flips else node


def store(writer: Writer, stretch: Stretch, value: Value, made: Made | None, *, keeps_old: bool = False) -> None:
    """``y = value`` where y is a buffer made for it, of the same shape and dtype; else into y."""
    node = _fits(value, stretch)
    if value.live:
        node = nodes.method(node, "detach")
    name = stretch.base
    if name in writer.rebound and len(stretch.order) + stretch.cell > 1 and may_be_turned(node):
        node = nodes.method(node, "contiguous")
    reads_itself = name in nodes.names_in(node)
    if stretch.whole and not stretch.flips and not reads_itself and not keeps_old:
        result = become(writer, stretch, value, made, node)
        if result is not None:
            if made is not None and not used_between(writer.context.frame, made.statement, writer.at, name):
                writer.dropped[name] = made
            writer.rebound.add(name)
            writer.stored.add(name)
            writer.assign(name, result)
            return
    if name in writer.rebound and stretch.whole and same_form(stretch, value):
        writer.assign(name, become_again(writer, stretch, node))
        return
    target = f"{name}[...]" if stretch.whole else writer.code(stretch.node)
    writer.stored.add(name)
    if isinstance(stretch.node, ast.Call):
        writer.write(f"{target}[:] = {writer.code(node)}")
        return
    if reads_itself and is_view(node):
        node = nodes.method(node, "clone")
    writer.assign(target, node)


def write_added(writer: Writer, stretch: Stretch, value: Value, operator: str) -> None:
    node = _fits(value, stretch)
    if value.live:
        node = nodes.method(node, "detach")
    name = stretch.base
    if value.boolean and operator == "-":
        raise DeclinedError("torch does not subtract comparisons")
    if name in writer.rebound:
        if not stretch.whole:
            raise DeclinedError(f"{name} is written whole, then changed in part")
        writer.assign(name, ast.BinOp(nodes.name(name), OPERATORS[operator](), node))
        return
    writer.stored.add(name)
    if name in nodes.names_in(node) and is_view(node):
        node = nodes.method(node, "clone")
    if isinstance(stretch.node, ast.Call):
        verb = {"+": "add_", "-": "sub_", "*": "mul_", "/": "div_"}[operator]
        writer.write(writer.code(nodes.method(stretch.node, verb, node)))
        return
    writer.assign(writer.code(stretch.node), node, f"{operator}=")


def _write_at_table(writer: Writer, vector: Vector) -> None:
    """``y[idx[i]] = v``, where the schedule knows that no two iterations meet, or that they write the same."""
    statement = vector.statement
    if statement.guards:
        raise DeclinedError("an element out of a table is written under a condition")
    low = writer.lowering(vector.axes)
    base = ast.parse(statement.target.base, mode="eval").body
    live = writer.context.seen.live_ins.get(statement.target.base)
    if live is None or live.tensor is None:
        raise DeclinedError(f"{statement.target.base} is no tensor that was seen")
    whole = Value(base, (), len(live.tensor.shape), False, live.tensor.dtype)
    target = low.at(whole, "", statement.target.indices, statement.target.node)
    value = writer.lowered(vector.axes, lambda one: one.expression(statement.value))
    node = fitted(value, target.axes, target.cell)
    if value.live:
        node = nodes.method(node, "detach")
    writer.stored.add(statement.target.base)
    if statement.kind == "accumulate":
        writer.assign(writer.code(target.node), node, f"{statement.operator}=")
    else:
        writer.assign(writer.code(target.node), node)
