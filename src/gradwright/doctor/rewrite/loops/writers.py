"""One scheduled statement, by its role."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import replace

from gradwright.doctor.rewrite.loops import nodes
from gradwright.doctor.rewrite.loops.appending import write_append
from gradwright.doctor.rewrite.loops.carrying import carried
from gradwright.doctor.rewrite.loops.chains import next_step
from gradwright.doctor.rewrite.loops.extremum import write_extremum
from gradwright.doctor.rewrite.loops.ir import Sequential, Step, Vector
from gradwright.doctor.rewrite.loops.keeping import as_python
from gradwright.doctor.rewrite.loops.lowering import Lowering
from gradwright.doctor.rewrite.loops.numbers_kept import is_list_of_numbers, write_into_list
from gradwright.doctor.rewrite.loops.reducing import write_reduce
from gradwright.doctor.rewrite.loops.running import write_running
from gradwright.doctor.rewrite.loops.scattering import write_scatter
from gradwright.doctor.rewrite.loops.stores import chosen, guards_of, under_all, write_map
from gradwright.doctor.rewrite.loops.value import Value
from gradwright.doctor.rewrite.loops.writing import Writer
from gradwright.doctor.rewrite.source_text import DeclinedError


def write_steps(writer: Writer, steps: Sequence[Step]) -> None:
    left = list(steps)
    while left:
        step, left = next_step(writer, left)
        if isinstance(step, Sequential):
            _write_sequential(writer, step)
        else:
            node = step.statement.node
            writer.comments_before(getattr(node, "lineno", 0), getattr(node, "end_lineno", 0) or 0)
            write_vector(writer, step)


def _write_sequential(writer: Writer, step: Sequential) -> None:
    loop = step.loop
    bounds = [loop.stop] if nodes.integer(loop.start) == 0 and loop.step == 1 else [loop.start, loop.stop]
    if loop.step != 1:
        bounds.append(nodes.constant(loop.step))
    low = writer.lowering(())
    head = nodes.call(nodes.name("range"), *(low.expression(bound).node for bound in bounds))
    line = getattr(loop.node, "lineno", 0)
    rows = carried(writer, step)
    writer.context.known.update(rows)
    writer.comments_before(line, line)
    writer.write(f"for {loop.variable} in {writer.code(head)}:")
    lowest = nodes.integer(loop.start if loop.step > 0 else loop.stop)
    at_least = -(10**9) if lowest is None else lowest + (loop.step < 0)
    with writer.inside(loop, at_least):
        write_steps(writer, step.body)
    writer.context.known.update(rows)
    writer.held -= rows.keys()


def write_vector(writer: Writer, vector: Vector) -> None:
    statement = vector.statement
    if is_list_of_numbers(writer, vector):
        write_into_list(writer, vector)
    elif vector.role == "map" and not statement.target.indices:
        _write_name(writer, vector)
    elif vector.role == "map" and statement.target.base in writer.context.temporaries:
        _write_into_temporary(writer, vector)
    elif vector.role == "map":
        write_map(writer, vector)
    elif vector.role == "reduce":
        write_reduce(writer, vector)
    elif vector.role == "scatter":
        write_scatter(writer, vector)
    elif vector.role == "running":
        write_running(writer, vector)
    elif vector.role == "extremum":
        write_extremum(writer, vector)
    else:
        write_append(writer, vector)


# --- names -----------------------------------------------------------------------------------------------------------


def _write_name(writer: Writer, vector: Vector) -> None:
    statement = vector.statement
    name = statement.target.base
    temporary = name in writer.context.temporaries
    if statement.kind == "accumulate":
        write_reduce(writer, replace(vector, reduced=()))
        return
    if isinstance(statement.value, ast.List) and not statement.value.elts:
        writer.context.lists.pop(name, None)
        writer.context.known.pop(name, None)
        return
    if not temporary and vector.axes:
        raise DeclinedError(f"{name} is read after the loop, with the value of its last iteration")

    def lower(low: Lowering) -> Value:
        conditions = guards_of(writer, low, vector)
        value = under_all(low, conditions, statement.value)
        known = writer.context.known.get(name)
        if not conditions:
            return value
        if known is None:
            return value  # it is read only where the same condition holds
        return chosen(low, conditions, value, known.value)

    value = writer.lowered_temporary(vector.axes, lower) if temporary else writer.lowered(vector.axes, lower)
    if temporary:
        writer.remember(name, value, statement.value if not statement.guards else None)
    else:
        writer.stored.add(name)
        writer.assign(name, as_python(writer, value))


def _write_into_temporary(writer: Writer, vector: Vector) -> None:
    """``row[j] = ...`` of a row that every iteration makes anew: the row gets one axis for each of its indices."""
    statement = vector.statement
    name = statement.target.base
    inner = [loop for loop in vector.axes if any(loop.variable in nodes.names_in(i) for i in statement.target.indices)]
    own = [loop for loop in vector.axes if loop not in inner]
    known = writer.context.known.get(name)
    variables = [index.id if isinstance(index, ast.Name) else "" for index in statement.target.indices]
    if known is None or known.source is None or statement.guards or statement.kind != "assign":
        raise DeclinedError(f"{name} is written in a way that has no form for whole tensors")
    if variables != [loop.variable for loop in inner]:
        raise DeclinedError(f"{name} is not written whole")
    sizes = writer.context.sizes
    shape = sizes.value_shape(known.source)
    low = writer.lowering(vector.axes)
    for axis, loop in enumerate(inner):
        span = low.spans.span(loop)
        length = shape.dim(axis, known.value.cell) if shape else None
        if length is None or span.low.terms or span.low.constant or span.step != 1 or length != span.high:
            raise DeclinedError(f"{name} is not written whole")
    order = [*own, *inner]
    value = writer.lowered(order, lambda one: one.expression(statement.value))
    if not set(inner) <= set(value.axes) or known.value.cell - len(inner) != value.cell:
        raise DeclinedError(f"{name} is given the same in several iterations")
    axes = tuple(loop for loop in value.axes if loop not in inner)
    if value.dtype != known.value.dtype:
        value = replace(value, node=low.cast(value.node, known.value.dtype), dtype=known.value.dtype)
    row = replace(value, axes=axes, cell=known.value.cell, number=False)
    writer.context.known.pop(name)
    writer.remember(name, row, None)
