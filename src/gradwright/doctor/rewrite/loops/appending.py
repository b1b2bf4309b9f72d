"""What a loop fills, a list, a dict, a tensor that grows, is one array with an axis more."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import replace

from gradwright.doctor.rewrite.loops import nodes
from gradwright.doctor.rewrite.loops.growing import grows, write_grown, write_packed
from gradwright.doctor.rewrite.loops.ir import Loop, Statement, Vector
from gradwright.doctor.rewrite.loops.keyed import write_keyed
from gradwright.doctor.rewrite.loops.lowering import Lowering
from gradwright.doctor.rewrite.loops.stores import guards_of, under_all
from gradwright.doctor.rewrite.loops.value import Value, fitted
from gradwright.doctor.rewrite.loops.writing import Writer
from gradwright.doctor.rewrite.source_text import DeclinedError


def write_append(writer: Writer, vector: Vector) -> None:
    statement = vector.statement
    name = statement.target.base
    if any(nodes.root_name(statement.target.node) in nodes.names_in(one) for one in _evaluated(writer, statement)):
        raise DeclinedError(f"{name} is used while it grows")
    if statement.target.indices:
        write_packed(writer, vector, collected(writer, vector, statement.value, ()))
        return
    if name in writer.context.lists:
        raise DeclinedError(f"{name} is filled by several statements")
    if statement.operator or grows(writer, statement):
        if any(one is not statement and one.target.base == name for one in writer.nest.statements):
            raise DeclinedError(f"{name} begins anew in the loop")
        if statement.operator:
            write_keyed(writer, vector, lambda node: collected(writer, vector, node, (), exact=True))
        else:
            write_grown(writer, vector, collected(writer, vector, statement.value, ()))
        return
    own = _loops_of(writer, name)
    value = collected(writer, vector, statement.value, own)
    writer.context.lists[name] = value
    if value.number and value.floating and not own:
        writer.lists[name] = collected(writer, vector, statement.value, own, exact=True)
    writer.context.temporaries |= {name}


def collected(writer: Writer, vector: Vector, node: ast.expr, own: Sequence[Loop], *, exact: bool = False) -> Value:
    """What the iterations compute, in their order, along one axis; that of each round of the loops ``own``.

    ``exact``: with all the digits that Python's numbers have.
    """
    name = vector.statement.target.base
    inner = [loop for loop in vector.axes if loop not in own]
    order = [*own, *inner]

    def lower(low: Lowering) -> Value:
        conditions = guards_of(writer, low, vector)
        low.exact = exact and not nodes.is_read_as_it_is(node)
        return under_all(low, conditions, node)

    value = writer.lowered(order, lower)
    low = writer.lowering(order)
    conditions = guards_of(writer, low, vector)
    value = _in_order(low, _everywhere(low, value, inner), inner)
    axes = tuple(loop for loop in value.axes if loop not in inner)
    left = len(inner)
    if conditions:
        sides = [one if holds else low.negated(one) for one, holds in conditions]
        mask = sides[0] if len(sides) == 1 else low.both(sides, ast.And())
        if axes or mask.cell or not mask.axes or mask.axes != value.axes[: len(mask.axes)]:
            raise DeclinedError(f"{name} is filled by rows of different lengths")
        mask = _in_order(low, mask, [loop for loop in inner if loop in mask.axes])
        value = value.with_node(ast.Subscript(value.node, mask.node, ast.Load()))
        left -= len(mask.axes) - 1
    if left > 1:
        first = len(axes)
        flat = nodes.method(value.node, "flatten", nodes.constant(first), nodes.constant(first + left - 1))
        value = value.with_node(flat)
    return replace(value, axes=axes, cell=value.cell + 1)


def _evaluated(writer: Writer, statement: Statement) -> Iterator[ast.expr]:
    """What is computed in the loops around the statement, where a list, tensor or dict has not all its items yet."""
    for one in writer.nest.statements:
        if one is statement or not set(statement.loops) - set(one.loops):
            yield from (one.value, *one.guards, *one.target.indices, *(value for _, value in one.also))
            yield from (end for loop in one.loops for end in (loop.start, loop.stop))
    if statement.operator:
        yield ast.parse(statement.operator, mode="eval").body


def _in_order(low: Lowering, value: Value, inner: Sequence[Loop]) -> Value:
    """As the list was filled: a loop that falls fills it from the other end."""
    falls = [value.axes.index(loop) for loop in inner if low.spans.span(loop).falls]
    return value.with_node(nodes.method(value.node, "flip", *map(nodes.constant, falls))) if falls else value


def _everywhere(low: Lowering, value: Value, inner: Sequence[Loop]) -> Value:
    """With all of ``inner`` among its axes: what is the same in several iterations is in the list every time."""
    if set(inner) <= set(value.axes):
        return value
    lengths = [length for loop in inner if (length := low.spans.length(loop)) is not None]
    if set(value.axes) - set(inner) or len(lengths) < len(inner):
        raise DeclinedError("a list of what is the same in every iteration")
    sizes = [low.spans.written(length) for length in lengths]
    if value.dtype in ("int", "float"):
        dtype = {"int": "int64", "float": "float64"}[value.dtype]
        kind = {"dtype": nodes.attribute(low.torch, dtype)} if value.dtype == "float" else {}
        node = nodes.call(nodes.attribute(low.torch, "full"), ast.Tuple(sizes, ast.Load()), value.node, **kind)
        return replace(value, node=node, axes=tuple(inner), dtype=dtype, sure=frozenset(inner))
    if value.number and not value.axes:
        raise DeclinedError("a list of what is the same in every iteration")
    sizes = [nodes.constant(-1) if loop in value.axes else size for loop, size in zip(inner, sizes, strict=True)]
    rest = [nodes.constant(-1)] * value.cell
    node = nodes.method(fitted(value, inner, value.cell), "expand", *sizes, *rest)
    return replace(value, node=node, axes=tuple(inner), sure=frozenset(inner))


def _loops_of(writer: Writer, name: str) -> tuple[Loop, ...]:
    """The loops in whose every iteration the list begins anew."""
    for statement in writer.nest.statements:
        if statement.kind == "assign" and statement.target.base == name and isinstance(statement.value, ast.List):
            return statement.loops
    made = writer.made(name)
    if made is None or not made.makes_list:
        raise DeclinedError(f"the list {name} is not empty before the loop, as far as the text shows")
    return ()
