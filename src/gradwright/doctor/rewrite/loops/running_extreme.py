"""The best so far, in every iteration: cummax and cummin, with the gradients of the loop."""

from __future__ import annotations

import ast
from collections.abc import Callable

from gradwright.doctor.rewrite.loops import nodes
from gradwright.doctor.rewrite.loops.candidates import beating, function_of, is_endless, start_of, ties
from gradwright.doctor.rewrite.loops.in_front import behind
from gradwright.doctor.rewrite.loops.ir import Vector
from gradwright.doctor.rewrite.loops.lowering import Lowering
from gradwright.doctor.rewrite.loops.rises import best_of_row_so_far, first_of_equals, row_that_begins, scanned
from gradwright.doctor.rewrite.loops.stores import chosen, guards_of, number_value, under_all
from gradwright.doctor.rewrite.loops.value import Value, aligned
from gradwright.doctor.rewrite.loops.writing import Writer
from gradwright.doctor.rewrite.source_text import DeclinedError

EXTREMES = ("max", "min", "<", ">", "<=", ">=")
Start = Callable[[Lowering], Value]


def best_so_far(writer: Writer, vector: Vector) -> Value:
    """Of a name. Its start goes with the loop, where that is a number of the loop's own."""
    name = vector.statement.target.base
    start = start_of(writer, name)
    value = running_extreme(writer, vector, lambda low: start)
    made = writer.made(name) if name not in writer.context.known else None
    if made is not None and made.number:
        writer.dropped[name] = made
    return value


def running_extreme(writer: Writer, vector: Vector, start: Start) -> Value:
    """The best of the start and all iterations up to each one, along the loop that ``vector`` runs along."""
    (along,) = vector.reduced
    if vector.statement.also:
        raise DeclinedError("with the best so far the loop keeps something else in every iteration")
    order = (*(loop for loop in vector.axes if loop is not along), along)
    if (row := row_that_begins(writer, vector, start)) is not None:
        return best_of_row_so_far(writer, vector, row)
    value = writer.lowered(order, lambda low: _candidates(writer, low, vector, start(low)))
    low = writer.lowering(order)
    if along not in value.axes:
        raise DeclinedError("the best so far of something that is the same in every iteration")
    if any(low.spans.triangular(loop) for loop in vector.axes):
        raise DeclinedError("the best so far over a triangle")
    at, falls = nodes.constant(value.axes.index(along)), low.spans.span(along).falls
    if falls:
        value = value.with_node(nodes.method(value.node, "flip", at))
    which, function = ties(vector.statement), function_of(vector.statement)
    if which == "first" and _tracked(value, low):
        value = first_of_equals(writer, value, function)
    elif which == "last" and _tracked(value, low):
        value = _last_of_equals(low, value, start(low), function)
    else:
        value = value.with_node(scanned(value.node, function, at))
    _warn(writer, vector, _tracked(value, low))
    if which == "shared":
        value = _with_start(low, function, value, start(low))
    return value.with_node(nodes.method(value.node, "flip", at)) if falls else value


def _candidates(writer: Writer, low: Lowering, vector: Vector, start: Value) -> Value:
    """What each iteration has to offer."""
    statement = vector.statement
    conditions, which, function = guards_of(writer, low, vector), ties(statement), function_of(statement)
    value = under_all(low, conditions, statement.value)
    if which == "first" or (which == "last" and not _tracked(value, low)):
        return beating(low, statement, start, conditions)
    if value.domain:
        raise DeclinedError("the best so far of something that is undefined at some values")
    if value.number and not start.number:
        raise DeclinedError("the best one begins as a tensor, and goes on as a number")
    if conditions and not value.floating:
        raise DeclinedError("whole numbers under a condition, and nothing to begin with")
    return chosen(low, conditions, value, number_value(float("-inf") if function == "max" else float("inf")))


def _tracked(value: Value, low: Lowering) -> bool:
    return low.context.tracked and value.floating and not value.number


def _last_of_equals(low: Lowering, value: Value, start: Value, function: str) -> Value:
    """As cummax has it; the start stands in front, so that it loses to what is equal to it."""
    last = nodes.constant(len(value.axes) - 1)
    if is_endless(start, function):
        return value.with_node(scanned(value.node, function, last))
    found = scanned(behind(low, start, value, value.axes[:-1]), function, last)
    after_start = ast.Slice(nodes.constant(1))
    return value.with_node(nodes.subscript(found, [*(nodes.whole() for _ in value.axes[:-1]), after_start]))


def _warn(writer: Writer, vector: Vector, tracked: bool) -> None:
    statement = vector.statement
    which, function = ties(statement), function_of(statement)
    if which == "last" and (tracked or statement.operator == function):
        writer.unsafe.append("where an element is NaN, the loop goes on with the next number and torch keeps the NaN")
    if which == "shared" and tracked:
        note = f"where two are equal, torch.{function}imum shares the gradient between them and cum{function} does not"
        writer.unsafe.append(note)


def _with_start(low: Lowering, function: str, value: Value, start: Value) -> Value:
    """torch.maximum of the start and the best of the iterations."""
    if is_endless(start, function):
        return value
    if start.number:
        raise DeclinedError("what begins as a number is no argument of torch.maximum")
    both = low.together([start, value])
    made = nodes.call(nodes.attribute(low.torch, f"{function}imum"), *aligned(both, low.order))
    return low.combined(made, both, value.dtype)
