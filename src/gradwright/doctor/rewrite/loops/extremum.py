"""The best one and its place: ``if x[i] > best: best, at = x[i], i``."""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import replace

from gradwright.doctor.rewrite.loops import nodes
from gradwright.doctor.rewrite.loops.beginnings import first_of
from gradwright.doctor.rewrite.loops.contest import contest
from gradwright.doctor.rewrite.loops.ir import Loop, Statement, Vector
from gradwright.doctor.rewrite.loops.keeping import Kept, keep
from gradwright.doctor.rewrite.loops.stores import write_map
from gradwright.doctor.rewrite.loops.stretches import stretch_of
from gradwright.doctor.rewrite.loops.targets import first_value, infinity
from gradwright.doctor.rewrite.loops.undisturbed import rows_from_their_first
from gradwright.doctor.rewrite.loops.value import Value
from gradwright.doctor.rewrite.loops.writing import Writer
from gradwright.doctor.rewrite.source_text import DeclinedError

Form = Callable[[Writer, Vector], list[Kept]]


def write_extremum(writer: Writer, vector: Vector) -> None:
    """``if x[i] > best: best, at = x[i], i``: of equal ones the first wins, as in torch."""
    if not vector.reduced:
        _write_larger(writer, vector)
        return
    for kept in best_and_what_is_kept(writer, vector, _plainly):
        keep(writer, kept)


def best_and_what_is_kept(writer: Writer, vector: Vector, plainly: Form) -> list[Kept]:
    """In few words, where the best begins as infinity or as the first one; else, and where care is asked for, so that
    NaN, a loop without iterations and one in which nothing is better do as in the loop.

    Raises: DeclinedError, where there is neither form.
    """
    contest_first = writer.context.careful or rows_from_their_first(writer, vector) is not None
    first, other = (contest, plainly) if contest_first else (plainly, contest)
    try:
        return first(writer, vector)
    except DeclinedError as error:
        try:
            return other(writer, vector)
        except DeclinedError as second:
            raise (error if first is contest else second) from None


def _plainly(writer: Writer, vector: Vector) -> list[Kept]:
    statement = vector.statement
    if statement.guards or statement.target.indices or len(vector.reduced) != 1:
        raise DeclinedError("the best one under a condition, or over several loops")
    if statement.operator not in ("<", ">"):
        raise DeclinedError("the last of equal ones wins, torch takes the first")
    (along,) = vector.reduced
    kept = tuple(loop for loop in vector.axes if loop is not along)
    function = "max" if statement.operator == ">" else "min"
    along = _from_the_first(writer, statement.target.base, function, statement, along)
    order = (*kept, along)
    value = writer.lowered(order, lambda low: low.expression(statement.value))
    low = writer.lowering(order)
    span = low.spans.span(along)
    if order != value.axes or value.cell or span.falls or any(low.spans.triangular(loop) for loop in order):
        raise DeclinedError("the best of something that is no element of its own")
    dims = [] if not kept else [nodes.constant(-1)]
    found = []
    for target, expression in statement.also:
        if not isinstance(expression, ast.Name) or expression.id != along.variable:
            raise DeclinedError("with the best one the loop keeps something else than its index")
        if span.low.terms or span.step != 1:
            raise DeclinedError("an index that does not begin at a fixed number")
        place = nodes.method(value.node, f"arg{function}", *dims)
        index = ast.BinOp(place, ast.Add(), nodes.constant(span.low.constant)) if span.low.constant else place
        stretch = stretch_of(writer, target, kept) if target.indices else None
        found.append(Kept(target, Value(index, kept, 0, True, "int64", sure=frozenset(kept)), stretch))
    best: ast.expr = nodes.method(value.node, f"a{function}", *dims)
    if not value.number and value.floating and writer.context.tracked:
        # The gradient goes to the first of equal ones, as in the loop; amax would share it.
        best = nodes.attribute(nodes.method(value.node, function, nodes.constant(-1 if kept else 0)), "values")
    if value.floating:
        writer.unsafe.append("where an element is NaN, the comparison passes over it and torch takes it for the best")
    return [*found, Kept(statement.target, replace(value, node=best, axes=kept))]


def _write_larger(writer: Writer, vector: Vector) -> None:
    """``if x[i] > m[i]: m[i] = x[i]``, each iteration its own element."""
    statement = vector.statement
    if statement.also or not statement.target.indices:
        raise DeclinedError("with the larger one the loop keeps something else")
    sign: ast.cmpop = {"<": ast.Lt(), "<=": ast.LtE(), ">": ast.Gt(), ">=": ast.GtE()}[statement.operator]
    current = ast.copy_location(_read(statement.target.node), statement.value)
    test = ast.Compare(statement.value, [sign], [current])
    guarded = replace(statement, kind="assign", operator="", guards=(*statement.guards, test))
    write_map(writer, replace(vector, statement=guarded, role="map"))


def _read(node: ast.expr) -> ast.expr:
    """The target, as something that is read."""
    assert isinstance(node, ast.Subscript)
    return ast.Subscript(node.value, node.slice, ast.Load())


def _from_the_first(writer: Writer, name: str, function: str, statement: Statement, along: Loop) -> Loop:
    """The loop as it runs over all candidates: from the one that the best begins as, if it begins as the first of them.

    Raises: DeclinedError, if it begins as neither that nor infinity.
    """
    wanted = float("-inf") if function == "max" else float("inf")
    known = writer.context.known.get(name)
    start: ast.expr | None = known.value.node if known is not None else None
    if known is None:
        made = writer.made(name)
        if made is not None and made.number and made.fill == wanted:
            return along
        start = first_value(writer.context.frame, writer.at, name)
    elif known.source is not None:
        start = known.source
    if start is not None and infinity(start) == wanted:
        return along
    begin = first_of(writer, statement, along)
    if begin is not None and all(_begins_as(writer, target.base, begin) for target, _ in statement.also):
        return replace(along, start=nodes.constant(begin))
    raise DeclinedError(f"{name} begins at something else than infinity or the first element")


def _begins_as(writer: Writer, name: str, number: int) -> bool:
    known = writer.context.known.get(name)
    start = known.value.node if known is not None else first_value(writer.context.frame, writer.at, name)
    return nodes.integer(start) == number
