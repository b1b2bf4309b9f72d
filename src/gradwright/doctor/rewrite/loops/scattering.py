"""Sums into elements that a table names: several iterations may meet in one."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from dataclasses import replace

from gradwright.doctor.rewrite.loops import nodes
from gradwright.doctor.rewrite.loops.ir import Loop, Vector
from gradwright.doctor.rewrite.loops.lowering import Lowering
from gradwright.doctor.rewrite.loops.stores import guards_of, under_all
from gradwright.doctor.rewrite.loops.targets import first_value
from gradwright.doctor.rewrite.loops.value import Value, fitted, kind_of
from gradwright.doctor.rewrite.loops.writing import Writer
from gradwright.doctor.rewrite.source_text import DeclinedError

_OF_DEFAULT_DTYPE = ("torch.zeros", "torch.ones", "torch.empty")
Picks = Callable[[ast.expr], ast.expr]


def write_scatter(writer: Writer, vector: Vector) -> None:
    """``counts[idx[i]] += v``: several iterations may meet in one element, and all count."""
    statement = vector.statement
    if statement.kind != "accumulate" or statement.operator not in ("+", "-"):
        raise DeclinedError(f"{statement.target.base} may be written at one element by several iterations")
    name = statement.target.base
    live = writer.context.seen.live_ins.get(name)
    if live is None or live.tensor is None:
        raise DeclinedError(f"{name} is no tensor that was seen")
    low = writer.lowering(vector.axes)
    rank = len(live.tensor.shape)
    axis, parts = _one_axis(name, statement.target.indices)
    indices = _indices(writer, vector, parts)
    conditions = guards_of(writer, low, vector)
    covered = frozenset[Loop]().union(*(index.sure for index in indices))
    value = writer.lowered(
        vector.axes, lambda one: under_all(one, guards_of(writer, one, vector), statement.value), covered
    )
    cell = rank - len(indices)
    if value.cell > cell:
        raise DeclinedError(f"{name} is given more than it has room for")
    picks = _picked(low, vector, conditions)
    add = value.with_node(ast.UnaryOp(ast.USub(), value.node)) if statement.operator == "-" else value
    if add.live:
        add = replace(add, node=nodes.method(add.node, "detach"), live=False)
    base = ast.parse(name, mode="eval").body
    writer.stored.add(name)
    from_data = not any(isinstance(node, ast.Attribute) and node.attr == "arange" for node in ast.walk(indices[0].node))
    if len(indices) == 1 and len(vector.axes) == 1 and indices[0].axes == vector.axes and from_data:
        index = picks(indices[0].node)
        given = _source(low, add, index, indices[0], base, live.tensor.dtype, cell, picks)
        if axis == cell == 1:
            given = nodes.attribute(given, "T")
        elif axis:
            given = nodes.method(given, "movedim", nodes.constant(0), nodes.constant(axis))
        writer.write(writer.code(nodes.method(base, "index_add_", nodes.constant(axis), index, given)))
        return
    if axis:
        raise DeclinedError(f"a column of {name} that a table names is added to by iterations of several loops")
    full = list(vector.axes)
    if conditions and any(one.axes and one.axes != vector.axes for one in indices):
        raise DeclinedError("an index over some of the loops only, under a condition")
    places = [
        picks(fitted(one, full, 0)) if one.axes else nodes.call(nodes.attribute(low.torch, "tensor"), one.node)
        for one in indices
    ]
    where = ast.Tuple(list(places), ast.Load())
    if add.axes:
        if conditions and add.axes != tuple(full):
            raise DeclinedError("values over some of the loops only, under a condition")
        given = picks(fitted(replace(add, axes=add.axes), full, cell))
    else:
        given = _one(low, add, base, _plain_dtype(writer, name, live.tensor.dtype))
    if add.dtype != live.tensor.dtype and not (add.number and not add.axes):
        given = _as_in(base, given)
    writer.write(writer.code(nodes.method(base, "index_put_", where, given, accumulate=ast.Constant(True))))


def _one_axis(name: str, parts: Sequence[ast.expr]) -> tuple[int, list[ast.expr]]:
    """The axis that an index out of a table stands at, and the indices without the ``:`` around: ``dW[:, y[i]]``.

    Raises: DeclinedError, for other slices.
    """
    found = [part for part in parts if not nodes.is_whole(part)]
    axis = next((at for at, part in enumerate(parts) if not nodes.is_whole(part)), 0)
    if any(isinstance(part, ast.Slice) for part in found) or (axis and len(found) > 1):
        raise DeclinedError(f"{name} is added to at a slice beside an index out of a table")
    if list(parts[axis : axis + len(found)]) != found:
        raise DeclinedError(f"{name} is added to at a slice between indices out of a table")
    return axis, found


def _indices(writer: Writer, vector: Vector, parts: Sequence[ast.expr]) -> list[Value]:
    """Read whole where they were as long in the run and one of them surely is: others would raise."""
    for optimistic in (True, False):
        low = writer.lowering(vector.axes, optimistic=optimistic)
        indices = [_index(low, part) for part in parts]
        sure = frozenset[Loop]().union(*(index.sure for index in indices))
        if not frozenset[Loop]().union(*(index.unsure for index in indices)) - sure:
            break
    return indices


def _as_in(base: ast.expr, node: ast.expr) -> ast.expr:
    """In the dtype of what is added to, whatever that is another time."""
    return nodes.method(node, "to", nodes.attribute(base, "dtype"))


def _plain_dtype(writer: Writer, name: str, dtype: str) -> str:
    """The dtype, if ``torch.tensor`` of a literal has it: it is int64, or the default one, by the text; else ""."""
    made = first_value(writer.context.frame, writer.at, name)
    default = isinstance(made, ast.Call) and writer.context.frame.module_of(made.func) in _OF_DEFAULT_DTYPE
    plain = default and isinstance(made, ast.Call) and all(keyword.arg != "dtype" for keyword in made.keywords)
    return dtype if dtype == "int64" or plain else ""


def _one(low: Lowering, add: Value, base: ast.expr, dtype: str) -> ast.expr:
    """A number as a tensor of the dtype of ``base``; ``dtype``: that, if a literal has it by itself."""
    if not add.number:
        return add.node
    tensor, literal = nodes.attribute(low.torch, "tensor"), nodes.number(add.node)
    if literal is not None and dtype:
        return nodes.call(tensor, nodes.constant(int(literal) if dtype == "int64" else literal))
    return nodes.call(tensor, add.node, dtype=nodes.attribute(base, "dtype"))


def _index(low: Lowering, part: ast.expr) -> Value:
    value = low.expression(part)
    if kind_of(value.dtype) != 1 or value.cell:
        raise DeclinedError("an index that is no integer")
    return value


def _picked(low: Lowering, vector: Vector, conditions: Sequence[tuple[Value, bool]]) -> Picks:
    """What takes of a tensor the iterations that a condition lets through."""
    if not conditions:
        return lambda node: node
    sides = [one if holds else low.negated(one) for one, holds in conditions]
    mask = sides[0] if len(sides) == 1 else low.both(sides, ast.And())
    if mask.axes != vector.axes:
        raise DeclinedError("a condition over some of the loops only")
    return lambda node: ast.Subscript(node, mask.node, ast.Load())


def _source(
    low: Lowering, add: Value, index: ast.expr, at: Value, base: ast.expr, dtype: str, cell: int, picks: Picks
) -> ast.expr:
    """What is added, one for each index, in the target's dtype."""
    if not add.axes and not add.cell and not cell:
        if nodes.number(add.node) is None:
            raise DeclinedError("one value is added at many places")
        kind = nodes.attribute(base, "dtype")
        if nodes.number(add.node) == 1:
            return nodes.call(nodes.attribute(low.torch, "ones_like"), index, dtype=kind)
        return nodes.call(nodes.attribute(low.torch, "full_like"), index, add.node, dtype=kind)
    if add.axes != at.axes or add.cell != cell:
        raise DeclinedError("one row is added at many places")
    node = picks(add.node)
    return node if add.dtype == dtype else _as_in(base, node)
