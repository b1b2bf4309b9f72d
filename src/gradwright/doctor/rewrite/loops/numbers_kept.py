"""Lists of Python's numbers that a loop writes into: ``counts[k] += 1`` of ``counts = [0] * n``."""

from __future__ import annotations

import ast
from collections.abc import Callable

from gradwright.doctor.rewrite.loops import nodes
from gradwright.doctor.rewrite.loops.ir import Vector
from gradwright.doctor.rewrite.loops.lowering import Lowering
from gradwright.doctor.rewrite.loops.stores import guards_of, under_all
from gradwright.doctor.rewrite.loops.targets import Made, used_between
from gradwright.doctor.rewrite.loops.value import Value, fitted, kind_of
from gradwright.doctor.rewrite.loops.writing import Writer
from gradwright.doctor.rewrite.source_text import DeclinedError


def is_list_of_numbers(writer: Writer, vector: Vector) -> bool:
    """Whether the statement writes an item of a list."""
    live = writer.context.seen.live_ins.get(vector.statement.target.base)
    return bool(vector.statement.target.indices) and live is not None and live.type == "list"


def write_into_list(writer: Writer, vector: Vector) -> None:
    """The list is made anew, of a tensor. Raises: DeclinedError, where its making does not show what it holds."""
    statement = vector.statement
    name = statement.target.base
    made = writer.made(name) if sum(one.target.base == name for one in writer.nest.statements) == 1 else None
    if made is None or made.times is None or made.fill is None:
        raise DeclinedError(f"{name}, which the loop writes into, is a list whose making the text does not show")
    adds = statement.kind == "accumulate" and statement.operator == "+" and vector.role in ("scatter", "map")
    if (statement.guards and not adds) or len(statement.target.indices) != 1:
        raise DeclinedError(f"items of the list {name} are written under a condition, or are lists")
    if used_between(writer.context.frame, made.statement, writer.at, name):
        raise DeclinedError(f"the list {name} is used before the loop")

    def lower(low: Lowering) -> Value:
        conditions = guards_of(writer, low, vector)
        low.exact = not nodes.is_read_as_it_is(statement.value)
        return under_all(low, conditions, statement.value)

    value = writer.lowered(vector.axes, lower, frozenset(vector.axes))
    kinds = (1, 2) if isinstance(made.fill, float) and adds else (2,) if isinstance(made.fill, float) else (1,)
    if value.cell or not value.number or kind_of(value.dtype) not in kinds:
        raise DeclinedError(f"the list {name} gets numbers of another kind than it held, or none")
    if vector.role == "map" and statement.kind == "assign":
        node = _written_whole(writer, vector, made, value)
    elif adds:
        node = _counted(writer, vector, made, value)
    else:
        raise DeclinedError(f"items of the list {name} are written in a way that has no form for whole tensors")
    writer.stored.add(name)
    writer.dropped[name] = made
    writer.assign(name, nodes.method(node, "tolist"))


def _written_whole(writer: Writer, vector: Vector, made: Made, value: Value) -> ast.expr:
    """``out[i] = ...`` for every i."""
    name = vector.statement.target.base
    (index,) = vector.statement.target.indices
    low = writer.lowering(vector.axes)
    loop = vector.axes[0]
    assert made.times is not None
    size, span = writer.context.sizes.term(made.times), low.spans.span(loop)
    whole = isinstance(index, ast.Name) and index.id == loop.variable and span.low.minus(span.low.times(0)) == 0
    if len(vector.axes) > 1 or not whole or span.step != 1 or span.falls or size is None or size.minus(span.high) != 0:
        raise DeclinedError(f"the list {name} is not written whole")
    if value.axes != vector.axes or loop not in value.sure:
        raise DeclinedError(f"every item of the list {name} is the same")
    return value.node


def _counted(writer: Writer, vector: Vector, made: Made, value: Value) -> ast.expr:
    """``bincount``; of anything else than ones a sum into zeros, in Python's own precision."""
    low = writer.lowering(vector.axes)
    (place,) = vector.statement.target.indices
    index = low.expression(place)
    if index.axes != vector.axes or index.cell or kind_of(index.dtype) != 1 or not set(vector.axes) <= index.sure:
        raise DeclinedError(f"{vector.statement.target.base} is added to at places that are not all the iterations'")
    assert made.times is not None and made.fill is not None
    size = low.expression(made.times).node
    if made.fill != 0:
        raise DeclinedError(f"the list {vector.statement.target.base} does not begin at 0")
    picks = _picks(writer, low, vector)
    places = picks(index.node)
    if nodes.number(value.node) == 1:
        counted = nodes.method(places, "bincount", minlength=size)
        return counted if isinstance(made.fill, int) else nodes.method(counted, "double")
    if value.axes != vector.axes:
        raise DeclinedError("one number is added at many places")
    given = picks(fitted(value, vector.axes, 0))
    dtype = "float64" if isinstance(made.fill, float) else "int64"
    if value.dtype != dtype:
        given = low.cast(given, dtype)
    if value.live:
        given = nodes.method(given, "detach")
    zeros = nodes.call(nodes.attribute(low.torch, "zeros"), size, dtype=nodes.attribute(low.torch, dtype))
    return nodes.method(zeros, "index_add", nodes.constant(0), places, given)


def _picks(writer: Writer, low: Lowering, vector: Vector) -> Callable[[ast.expr], ast.expr]:
    """What takes of a tensor over the loops the iterations that a condition lets through, in one row."""
    conditions = guards_of(writer, low, vector)
    if not conditions:
        return lambda node: nodes.method(node, "flatten") if len(vector.axes) > 1 else node
    sides = [one if holds else low.negated(one) for one, holds in conditions]
    mask = sides[0] if len(sides) == 1 else low.both(sides, ast.And())
    if mask.axes != vector.axes:
        raise DeclinedError("a condition over some of the loops only")
    return lambda node: ast.Subscript(node, mask.node, ast.Load())
