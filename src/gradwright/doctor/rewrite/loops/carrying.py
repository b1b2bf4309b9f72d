"""A name of the body that goes from one round of a kept loop to the next: for all rounds of the loops around at once.

``for n in range(N): last = 0.0; for t in range(T): last = last * g + r[t, n]``: taken at once over ``n``, ``last`` is a
row, which is made before the loop over ``t`` and replaced in each of its rounds.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from gradwright.doctor.rewrite.loops import nodes
from gradwright.doctor.rewrite.loops.context import Temporary
from gradwright.doctor.rewrite.loops.ir import Loop, Sequential, Statement, Step, Vector
from gradwright.doctor.rewrite.loops.value import Value, reordered
from gradwright.doctor.rewrite.loops.writing import Writer
from gradwright.doctor.rewrite.source_text import DeclinedError
from gradwright.doctor.source.seen import SeenTensor, key_of


def carried(writer: Writer, step: Sequential) -> dict[str, Temporary]:
    """What goes into the first round, written as a name of its own each. Raises: DeclinedError."""
    vectors = sorted(vectors_of(step), key=lambda one: one.statement.number)
    found: dict[str, Temporary] = {}
    for vector in vectors:
        name = vector.statement.target.base
        if name in found or name not in writer.context.temporaries or vector.statement.target.indices:
            continue
        before = writer.context.known.get(name)
        if before is None or step.loop in before.value.axes:
            continue  # every round has its own
        if _is_read_before_it_is_set(name, vectors):
            found[name] = _as_a_row(writer, name, before.value, vector)
    return found


def vectors_of(step: Step) -> Iterator[Vector]:
    if isinstance(step, Vector):
        yield step
        return
    for inner in step.body:
        yield from vectors_of(inner)


def _is_read_before_it_is_set(name: str, vectors: Sequence[Vector]) -> bool:
    """In a round, as far as the order of the text shows it."""
    home = min((len(one.statement.loops) for one in vectors if one.statement.target.base == name), default=0)
    for vector in vectors:
        statement = vector.statement
        if any(name in nodes.names_in(one) for one in _read_by(statement)):
            return True
        if statement.target.base == name:
            surely = statement.kind == "assign" and not statement.guards and len(statement.loops) == home
            return not surely
    return False


def _read_by(statement: Statement) -> tuple[ast.expr, ...]:
    return (statement.value, *statement.guards, *statement.target.indices, *(value for _, value in statement.also))


def _as_a_row(writer: Writer, name: str, before: Value, vector: Vector) -> Temporary:
    """One element for each of the rounds taken at once."""
    tensor = _seen_as(writer, name)
    if not vector.axes or tensor is None:
        raise DeclinedError(f"{name} needs its own value of the iteration before")
    start = _start(writer, name, before, vector.axes, tensor)
    if not (isinstance(start, ast.Name) and start.id == name):
        writer.assign(name, start)
    writer.held.add(name)
    return Temporary(Value(nodes.name(name), vector.axes, len(tensor.shape), False, tensor.dtype))


def _start(writer: Writer, name: str, before: Value, axes: tuple[Loop, ...], tensor: SeenTensor) -> ast.expr:
    if not before.number:
        row = reordered(before, axes)
        if row.axes != axes or row.cell != len(tensor.shape) or row.dtype != tensor.dtype:
            raise DeclinedError(f"{name} is not of one shape in all rounds")
        return row.node
    number = nodes.number(before.node)
    if number is None or tensor.shape:
        raise DeclinedError(f"{name} is a number in one round and a tensor in the next")
    low = writer.lowering(axes)
    lengths = [low.spans.length(loop) for loop in axes]
    if any(length is None for length in lengths):
        raise DeclinedError(f"{name} is kept in a loop with a step")
    shape = ast.Tuple([low.spans.written(length) for length in lengths if length is not None], ast.Load())
    like = _alike(writer, tensor)
    if number == 0:
        return nodes.method(like, "new_zeros", *shape.elts)
    return nodes.method(like, "new_full", shape, before.node)


def _seen_as(writer: Writer, name: str) -> SeenTensor | None:
    """The tensor that it was wherever it was read; None if it was seen as several, or as none."""
    values = writer.context.seen.values
    reads = [
        node
        for statement in writer.nest.statements
        for expression in _read_by(statement)
        for node in ast.walk(expression)
        if isinstance(node, ast.Name) and node.id == name and hasattr(node, "lineno")
    ]
    tensors = [one.tensor for node in reads for one in values.get(key_of(node), ()) if one.tensor is not None]
    kinds = {(one.shape, one.dtype, one.device) for one in tensors}
    return tensors[0] if len(kinds) == 1 else None


def _alike(writer: Writer, tensor: SeenTensor) -> ast.expr:
    """A tensor of the same dtype that the loop reads, and does not change."""
    low = writer.lowering(())
    for statement in writer.nest.statements:
        for node in ast.walk(statement.value):
            if not isinstance(node, ast.Name | ast.Attribute) or not low.stays_the_same(node):
                continue
            if nodes.names_in(node) & writer.context.written:
                continue
            described = low.described(node)
            if described is not None and described.tensor is not None:
                mine = described.tensor
                if (mine.dtype, mine.device) == (tensor.dtype, tensor.device):
                    return node
    raise DeclinedError("no tensor of the loop has the dtype of what it carries")
