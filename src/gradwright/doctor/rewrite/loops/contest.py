"""The best of a start and all iterations, and what is kept with it: the start stands in front of them, as one more.

So a loop without iterations, or in which nothing is better than the start, leaves everything as it was.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import replace

from gradwright.doctor.rewrite.loops import nodes
from gradwright.doctor.rewrite.loops.candidates import beating, function_of, start_of, ties
from gradwright.doctor.rewrite.loops.expressions import fresh
from gradwright.doctor.rewrite.loops.in_front import behind
from gradwright.doctor.rewrite.loops.ir import Loop, Place, Statement, Vector
from gradwright.doctor.rewrite.loops.keeping import Kept
from gradwright.doctor.rewrite.loops.lowering import Lowering
from gradwright.doctor.rewrite.loops.stores import guards_of, number_value, under_all
from gradwright.doctor.rewrite.loops.stretches import Stretch, stretch_of
from gradwright.doctor.rewrite.loops.undisturbed import (
    Rows,
    after_first,
    as_compared,
    best_of_rows,
    rows_from_their_first,
)
from gradwright.doctor.rewrite.loops.value import Value
from gradwright.doctor.rewrite.loops.writing import Writer
from gradwright.doctor.rewrite.source_text import DeclinedError


def contest(writer: Writer, vector: Vector) -> list[Kept]:
    """The best, then what else is kept with it. What they share is written as a line of its own.

    Raises: DeclinedError, with nothing written.
    """
    if (found := rows_from_their_first(writer, vector)) is not None:
        return _of_rows(writer, after_first(vector, found), found)
    statement = vector.statement
    kept = tuple(loop for loop in vector.axes if loop not in vector.reduced)
    order, function = (*kept, *vector.reduced), function_of(statement)
    stretch = stretch_of(writer, statement.target, kept) if statement.target.indices else None
    start = _start(writer, statement.target, stretch)
    shared = ties(statement) == "shared"
    offer = _offered if shared else beating
    value = writer.lowered(order, lambda low: offer(low, statement, start, guards_of(writer, low, vector)))
    tracked = value.floating and not value.number and writer.context.tracked
    _check(writer, vector, value, tracked)
    low = writer.lowering(order)
    row = _row(low, value, start, kept)
    if (plain := as_compared(writer, vector, start, value)) is not None:
        rows = Rows(value, _row(low, plain, start, kept).node, row.node, kept)
        return _of_rows(writer, vector, rows, stretch)
    dims = [nodes.constant(-1)] if kept else []
    if shared:
        dims, tracked = [nodes.constant(len(kept))] if kept or value.cell else [], False
    if not statement.also:
        return [Kept(statement.target, replace(row, node=_best(row.node, function, dims, tracked), axes=kept), stretch)]
    name = nodes.name(fresh("candidates", writer.printer.words | writer.reads_so_far()))
    place = nodes.method(name, f"arg{function}", *dims)
    others = [_with_it(writer, vector, target, expression, place) for target, expression in statement.also]
    writer.assign(name.id, row.node)
    best = replace(row, node=_best(name, function, dims, tracked), axes=kept)
    return [Kept(statement.target, best, stretch), *others]


def _of_rows(writer: Writer, vector: Vector, rows: Rows, stretch: Stretch | None = None) -> list[Kept]:
    """The best of every row, and what is kept with it. ``vector``: its loop is that of the row after its first one."""
    target, also = vector.statement.target, vector.statement.also

    def kept_with_it(place: ast.expr) -> list[Kept]:
        return [_with_it(writer, vector, other, expression, place) for other, expression in also]

    kept_with_it(nodes.name("place"))  # raises before anything is written
    best, place = best_of_rows(writer, vector.statement, rows)
    return [Kept(target, replace(rows.value, node=best, axes=rows.kept), stretch), *kept_with_it(place)]


def contested(writer: Writer, vector: Vector) -> Kept | None:
    """The best of the start and all iterations, where the start may be equal to one of them, or care is asked for."""
    name = vector.statement.target.base
    live = writer.context.seen.live_ins.get(name) if not vector.statement.target.indices else None
    as_tensor = live is not None and live.tensor is not None and name not in writer.context.temporaries
    if not as_tensor and not writer.context.careful:
        return None
    try:
        (best,) = contest(writer, vector)
    except DeclinedError:
        if as_tensor:
            raise
        return None
    return best


def _check(writer: Writer, vector: Vector, value: Value, tracked: bool) -> None:
    statement = vector.statement
    which = ties(statement)
    if set(vector.axes) - set(value.axes):
        raise DeclinedError("the best of something that is the same in every iteration")
    if len(vector.reduced) > 1 and statement.also:
        raise DeclinedError("the best one over several loops, and its place")
    if which == "shared" and tracked:
        writer.unsafe.append("where three or more are equal, the loop shares the gradient between them in another way")
    if value.cell and len(vector.reduced) > 1:
        raise DeclinedError("the best of whole rows over several loops")
    if which == "last" and (statement.also or tracked):
        raise DeclinedError("the last of equal ones wins, torch takes the first")
    if which == "last" and statement.operator == function_of(statement):
        writer.unsafe.append("where an element is NaN, the loop forgets what was best before it")


def _row(low: Lowering, value: Value, start: Value, kept: Sequence[Loop]) -> Value:
    """The start and then all candidates, along the last axis."""
    falls = [index for index, loop in enumerate(value.axes) if loop not in kept and low.spans.span(loop).falls]
    node = nodes.method(value.node, "flip", *map(nodes.constant, falls)) if falls else value.node
    if len(value.axes) - len(kept) > 1:
        node = nodes.method(node, "flatten", nodes.constant(len(kept)))
    return replace(value, node=behind(low, start, value.with_node(node), kept))


def _offered(low: Lowering, statement: Statement, start: Value, conditions: Sequence[tuple[Value, bool]]) -> Value:
    """For torch.maximum, which keeps NaN."""
    if conditions or start.number:
        raise DeclinedError("torch.maximum under a condition, or of something that begins as a number")
    return under_all(low, [], statement.value)


def _best(node: ast.expr, function: str, dims: Sequence[ast.expr], tracked: bool) -> ast.expr:
    """The gradient goes to the first of equal ones, as in the loop; amax would share it."""
    if tracked:
        return nodes.attribute(nodes.method(node, function, *(dims or [nodes.constant(0)])), "values")
    return nodes.method(node, f"a{function}", *dims)


def _with_it(writer: Writer, vector: Vector, target: Place, expression: ast.expr, place: ast.expr) -> Kept:
    """What was kept with the best one, by its place in the row: 0 is the start."""
    kept = tuple(loop for loop in vector.axes if loop not in vector.reduced)
    (along,) = vector.reduced
    stretch = stretch_of(writer, target, kept) if target.indices else None
    start = _start(writer, target, stretch)
    if isinstance(expression, ast.Name) and expression.id == along.variable:
        index = _index(writer.lowering((*kept, along)), along, kept, start, place)
        if index is not None:
            return Kept(target, index, stretch)
    return Kept(target, _picked(writer, vector, along, kept, start, expression, place), stretch)


def _index(low: Lowering, along: Loop, kept: tuple[Loop, ...], start: Value, place: ast.expr) -> Value | None:
    """The loop's number at the best one, by arithmetic; None where it has to be looked up."""
    span = low.spans.span(along)
    if span.falls or span.step != 1 or span.low.terms:
        return None
    first, begin = span.low.constant, nodes.integer(start.node) if start.number else None
    here, every = _shifted(place, first - 1), frozenset(kept)
    if begin == first - 1:
        return Value(here, kept, 0, True, "int64", sure=every)
    if begin == first:
        return Value(nodes.method(here, "clamp", min=nodes.constant(begin)), kept, 0, True, "int64", sure=every)
    if start.number or start.dtype != "int64" or start.axes != kept:
        return None
    won = ast.Compare(place, [ast.Gt()], [nodes.constant(0)])
    node = nodes.call(nodes.attribute(low.torch, "where"), won, here, start.node)
    return Value(node, kept, 0, False, "int64", sure=start.sure)


def _picked(
    writer: Writer,
    vector: Vector,
    along: Loop,
    kept: tuple[Loop, ...],
    start: Value,
    expression: ast.expr,
    place: ast.expr,
) -> Value:
    """What an expression is at the best one: in a row like that of the candidates, at the same place."""
    value = writer.lowered((*kept, along), lambda low: under_all(low, guards_of(writer, low, vector), expression))
    low = writer.lowering((*kept, along))
    if value.cell or value.domain or along not in value.axes:
        raise DeclinedError("with the best one the loop keeps something else than a number of its iteration")
    if value.axes not in ((along,), (*kept, along)):
        raise DeclinedError("with the best one the loop keeps something of some loops only")
    if start.number and value.floating != start.floating:
        raise DeclinedError("with the best one the loop keeps something that begins as another kind of number")
    if low.spans.span(along).falls:
        value = value.with_node(nodes.method(value.node, "flip", nodes.constant(len(value.axes) - 1)))
    row = behind(low, start, value, value.axes[:-1])
    if len(value.axes) == 1:
        node = nodes.subscript(row, [place])
    else:
        column = nodes.method(place, "unsqueeze", nodes.constant(-1))
        node = nodes.method(nodes.method(row, "gather", nodes.constant(-1), column), "squeeze", nodes.constant(-1))
    return replace(value, node=node, axes=kept, sure=frozenset(kept))


def _start(writer: Writer, target: Place, stretch: Stretch | None) -> Value:
    if stretch is None:
        return start_of(writer, target.base)
    made = writer.made(stretch.base) if stretch.whole else None
    if made is not None and made.fill is not None:
        return number_value(made.fill)
    if stretch.places or stretch.flips:
        raise DeclinedError(f"{stretch.base} is written backwards or a column at a time, under a condition")
    return Value(stretch.node, stretch.order, stretch.cell, False, stretch.dtype, sure=stretch.sure)


def _shifted(node: ast.expr, by: int) -> ast.expr:
    if not by:
        return node
    return ast.BinOp(node, ast.Add() if by > 0 else ast.Sub(), nodes.constant(abs(by)))
