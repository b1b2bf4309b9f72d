"""Partial results that every iteration keeps: cumsum and its kin."""

from __future__ import annotations

import ast
import copy
from dataclasses import replace

from gradwright.doctor.rewrite.loops import nodes
from gradwright.doctor.rewrite.loops.context import Temporary
from gradwright.doctor.rewrite.loops.ir import Loop, Statement, Vector
from gradwright.doctor.rewrite.loops.lowering import Lowering
from gradwright.doctor.rewrite.loops.running_extreme import EXTREMES, best_so_far, running_extreme
from gradwright.doctor.rewrite.loops.stores import store, under_all
from gradwright.doctor.rewrite.loops.stretches import OPERATORS, stretch_of
from gradwright.doctor.rewrite.loops.value import Value, joined_axes, kind_of, reordered
from gradwright.doctor.rewrite.loops.writing import Writer
from gradwright.doctor.rewrite.source_text import DeclinedError

_SCANS = {"+": "cumsum", "-": "cumsum", "*": "cumprod"}


def write_running(writer: Writer, vector: Vector) -> None:
    statement = vector.statement
    (along,) = vector.reduced
    name = statement.target.base
    if statement.operator in EXTREMES and not statement.target.indices:
        readers = _readers(writer, vector, name)
        if any(number < statement.number for number in readers):
            raise DeclinedError(f"{name} is read before it is compared in the same iteration")
        _keep(writer, name, best_so_far(writer, vector), len(readers))
        return
    if statement.operator not in (*_SCANS, *EXTREMES):
        raise DeclinedError(f"a running {statement.operator} has no form for whole tensors")
    if statement.guards:
        raise DeclinedError("a running result that some iterations leave out")
    if statement.target.indices:
        _along_elements(writer, vector, along)
        return
    scanned = writer.lowered(vector.axes, lambda low: _scan(low, vector, along))
    if name in writer.context.temporaries and name in writer.context.known:
        start = writer.context.known[name].value
    else:
        start = _start(writer, statement, name)
        if not start.number and start.dtype != scanned.dtype:
            raise DeclinedError(f"{name} begins in another dtype than what is added to it")
    low = writer.lowering(vector.axes)
    neutral = nodes.number(start.node) == (1 if statement.operator == "*" else 0)
    whole = (
        scanned
        if neutral and statement.operator != "-"
        else _begun_with(writer, vector, along, start)
        or low.arithmetic(OPERATORS[statement.operator](), start, scanned)
    )
    readers = _readers(writer, vector, name)
    earlier = [number < statement.number for number in readers]
    if any(earlier):
        if not all(earlier) or len(set(readers)) > 1:
            raise DeclinedError(f"{name} is read before and after it is added to")
        whole = _exclusive(writer, low, vector, along, start, neutral)
    _keep(writer, name, whole, len(readers))


def _keep(writer: Writer, name: str, whole: Value, readers: int) -> None:
    """The partial results under the name of the last one, which nobody reads any more."""
    after = set(writer.nest.live_outs).union(*map(nodes.names_in, writer.nest.tail))
    if name in after:
        raise DeclinedError(f"{name} is read after the loop, and kept in every iteration")
    writer.context.temporaries |= {name}
    writer.context.known[name] = Temporary(whole)
    if readers != 1:
        writer.owned -= nodes.names_in(whole.node)
    as_it_is = any(isinstance(one.value, ast.Name) and one.value.id == name for one in writer.nest.statements)
    if readers > 1 or not (as_it_is or isinstance(whole.node, ast.Name)):
        writer.assign(name, whole.node)
        writer.context.known[name] = Temporary(replace(whole, node=nodes.name(name)))


def _start(writer: Writer, statement: Statement, name: str) -> Value:
    """What the name is before the loop: a number that the text shows, or a tensor that nobody else sees change."""
    made = writer.made(name)
    if made is not None and made.number:
        writer.dropped[name] = made
        return Value(nodes.constant(made.fill), number=True, dtype="float" if isinstance(made.fill, float) else "int")
    live = writer.context.seen.live_ins.get(name)
    own = made is not None or isinstance(statement.node, ast.Assign)
    if live is None or live.tensor is None or not own:
        raise DeclinedError(f"{name} begins as something that the text does not show")
    return Value(nodes.name(name), (), len(live.tensor.shape), False, live.tensor.dtype, carriers=frozenset({name}))


def _begun_with(writer: Writer, vector: Vector, along: Loop, start: Value) -> Value | None:
    """The sums that begin with a tensor: it has a say in their dtype, even one of no axis."""
    value = writer.lowered(vector.axes, lambda low: under_all(low, [], vector.statement.value))
    plain = vector.statement.operator == "+" and value.axes == (along,) and start.cell == value.cell
    low = writer.lowering(vector.axes)
    if start.number or not plain or low.spans.span(along).falls:
        return None
    first = nodes.subscript(start.node, [nodes.constant(None)])
    together = nodes.call(nodes.attribute(low.torch, "cat"), ast.List([first, value.node], ast.Load()))
    summed = nodes.method(together, "cumsum", nodes.constant(0))
    return value.with_node(nodes.subscript(summed, [ast.Slice(nodes.constant(1), None)]))


def _exclusive(writer: Writer, low: Lowering, vector: Vector, along: Loop, start: Value, neutral: bool) -> Value:
    """What the sum was before each iteration: nothing at first, then the running sum without its last entry."""
    operator = vector.statement.operator
    value = writer.lowered(vector.axes, lambda one: under_all(one, [], vector.statement.value))
    if operator != "+" or not neutral or low.spans.span(along).falls or not isinstance(value.node, ast.Name):
        raise DeclinedError(f"{vector.statement.target.base} is read before it is added to in the same iteration")
    at = value.axes.index(along)
    before = [nodes.whole() for _ in range(at)]
    head = nodes.subscript(value.node, [*before, ast.Slice(None, nodes.constant(1))])
    rest = nodes.subscript(value.node, [*before, ast.Slice(None, nodes.constant(-1))])
    zeros = nodes.call(nodes.attribute(low.torch, "zeros_like"), head)
    parts = ast.Tuple([zeros, nodes.method(rest, "cumsum", nodes.constant(at))], ast.Load())
    where = [nodes.constant(at)] if at else []
    return value.with_node(nodes.call(nodes.attribute(low.torch, "cat"), parts, *where))


def _readers(writer: Writer, vector: Vector, name: str) -> list[int]:
    """The number of the statement of each read."""
    found = []
    for statement in writer.nest.statements:
        if statement is not vector.statement:
            expressions = (statement.value, *statement.guards, *statement.target.indices)
            inside = [node for expression in expressions for node in ast.walk(expression)]
            found += [statement.number for node in inside if isinstance(node, ast.Name) and node.id == name]
    return found


def _scan(low: Lowering, vector: Vector, along: Loop) -> Value:
    value = under_all(low, [], vector.statement.value)
    if along not in value.axes:
        raise DeclinedError("a running result of something that is the same in every iteration")
    if any(low.spans.triangular(loop) for loop in vector.axes):
        raise DeclinedError("a running result over a triangle")
    at = value.axes.index(along)
    node, falls = value.node, low.spans.span(along).falls
    if falls:
        node = nodes.method(node, "flip", nodes.constant(at))
    narrow = kind_of(value.dtype) < 2 and value.dtype != "int64"
    if narrow:
        raise DeclinedError("a running sum of small integers")
    if kind_of(value.dtype) < 2 and value.number and vector.statement.operator == "*":
        raise DeclinedError("a product of Python's integers, of which none is the largest")
    node = nodes.method(node, _SCANS[vector.statement.operator], nodes.constant(at))
    if falls:
        node = nodes.method(node, "flip", nodes.constant(at))
    return value.with_node(node)


def _along_elements(writer: Writer, vector: Vector, along: Loop) -> None:
    """``out[i] = out[i - 1] + x[i]``: what stands before the first element, and the running sum of the rest."""
    statement = vector.statement
    stretch = stretch_of(writer, statement.target, vector.axes)
    if stretch is None or stretch.flips or stretch.whole:
        raise DeclinedError("a running result whose first element is not set before the loop")
    if writer.lowering(vector.axes).spans.span(along).falls or along.step != 1:
        raise DeclinedError("a running result that runs backwards")
    low = writer.lowering(stretch.order)
    before = [
        _before(index, along) if along.variable in nodes.names_in(index) else index
        for index in statement.target.indices
    ]
    rank = stretch.cell + len(stretch.order)
    whole = Value(ast.parse(stretch.base, mode="eval").body, (), rank, False, stretch.dtype)
    first = low.at(whole, stretch.base, before, statement.target.node)
    if statement.operator in EXTREMES:
        best = running_extreme(writer, vector, lambda low: first)
        store(writer, stretch, reordered(best, stretch.order), None)
        return
    value = writer.lowered(stretch.order, lambda low: _scan(low, vector, along), stretch.sure)
    result = low.arithmetic(OPERATORS[statement.operator](), first, value)
    complete = replace(result, axes=joined_axes([first, value], low.order))
    store(writer, stretch, complete, None)


def _before(index: ast.expr, along: Loop) -> ast.expr:
    """The index one step before the loop's first."""

    class First(ast.NodeTransformer):
        def visit_Name(self, node: ast.Name) -> ast.expr:  # ast's own name for it
            return along.start if node.id == along.variable else node

    start = First().visit(copy.deepcopy(index))
    value = nodes.integer(start)
    constant = _folded(start)
    value = constant if value is None else value
    if value is None:
        return ast.BinOp(start, ast.Sub(), nodes.constant(1))
    if value < 1:
        raise DeclinedError("a running result that begins with the last element")
    return nodes.constant(value - 1)


def _folded(node: ast.expr) -> int | None:
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Sub):
        left, right = _folded(node.left), _folded(node.right)
        if left is not None and right is not None:
            return left + right if isinstance(node.op, ast.Add) else left - right
    return nodes.integer(node)
