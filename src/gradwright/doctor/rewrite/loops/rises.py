"""Where the best so far rises: cummax says where the last of equal ones is, the loop keeps the first, and never a NaN.

    highest, place = x.cummax(0)
    if not torch.equal(highest[1:] > highest[:-1], place[1:] != place[:-1]):  # equal ones, or NaN
        candidates = torch.where(x > best, x, best)
        highest, place = candidates.cummax(0)
        place[1:] *= highest[1:] > highest[:-1]
        highest = candidates.gather(0, place.cummax(0).values)

An equal one moves the place and does not raise the best; nor does a NaN, to which nothing compares.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import dataclass, replace

from gradwright.doctor.rewrite.loops import nodes
from gradwright.doctor.rewrite.loops.beginnings import element_before, first_of
from gradwright.doctor.rewrite.loops.candidates import function_of, is_endless, ties
from gradwright.doctor.rewrite.loops.expressions import fresh
from gradwright.doctor.rewrite.loops.ir import Loop, Vector
from gradwright.doctor.rewrite.loops.lowering import Lowering
from gradwright.doctor.rewrite.loops.targets import dtype_root
from gradwright.doctor.rewrite.loops.undisturbed import NAN_WINS, is_comparable, the_better, under
from gradwright.doctor.rewrite.loops.value import Value
from gradwright.doctor.rewrite.loops.writing import Writer

Start = Callable[[Lowering], Value]


@dataclass(frozen=True)
class Beginning:
    """A row over the loop that ``along`` is, or over one iteration more: then the best begins as that one (``longer``).

    ``exact``: the row with what the best begins as in the place of what loses to it. ``endless``: that, if infinity.
    """

    value: Value
    exact: Value
    along: Loop
    longer: bool
    endless: ast.expr | None


def row_that_begins(writer: Writer, vector: Vector, start: Start) -> Beginning | None:
    """None where the best begins as neither the first of what it is compared with nor infinity."""
    statement = vector.statement
    (along,) = vector.reduced
    if statement.guards or along.step != 1 or ties(statement) != "first":
        return None
    in_elements = bool(statement.target.indices)
    begin = (element_before if in_elements else first_of)(writer, statement, along)
    own = along if begin is None else replace(along, start=nodes.constant(begin))
    order = (*(loop for loop in vector.axes if loop is not along), own)
    low = writer.lowering(order)
    begun = start(low)
    endless = begun.node if is_endless(begun, function_of(statement)) else None
    if begin is None and endless is None:
        return None
    value = writer.lowered(order, lambda low: low.expression(statement.value))
    if value.axes != order or not is_comparable(writer, value, statement.value):
        return None
    if any(low.spans.triangular(one) for one in order):
        return None
    if in_elements and not _of_one_dtype(writer, statement.target.base, value):
        return None
    if endless is None and not in_elements and isinstance(begun.node, ast.Subscript):
        begun = _named(writer, begun)
    longer = begin is not None and nodes.integer(along.start) != begin
    return Beginning(value, the_better(low, statement, value, begun), along, longer, endless)


def _of_one_dtype(writer: Writer, name: str, value: Value) -> bool:
    """Whether what is written into the array is not rounded there."""
    frame, at = writer.context.frame, writer.at
    root = dtype_root(frame, name, at)
    return any(dtype_root(frame, carrier, at) == root for carrier in value.carriers)


def _named(writer: Writer, start: Value) -> Value:
    """The first of every row on a line of its own, which raises where the rows are empty, as the loop did."""
    name = fresh("first", writer.printer.words | writer.reads_so_far())
    writer.assign(name, start.node)
    return start.with_node(nodes.name(name))


def best_of_row_so_far(writer: Writer, vector: Vector, row: Beginning) -> Value:
    """Its lines are written; in what comes out the last axis is the loop's own again."""
    value, function = row.value, function_of(vector.statement)
    at = nodes.constant(len(value.axes) - 1)
    if not value.floating:
        return _own(row, scanned(value.node, function, at))
    best, place = _names(writer, function)
    writer.owned |= {best.id}
    if not _tracked(writer, value):
        writer.assign(best.id, scanned(value.node, function, at))
        last = _along_last(best, value, ast.Slice(nodes.constant(-1)))
        with under(writer, nodes.method(nodes.method(last, "isnan"), "any"), NAN_WINS):
            writer.assign(best.id, scanned(row.exact.node, function, at))
        return _own(row, best)
    writer.assign(f"{best.id}, {place.id}", nodes.method(value.node, f"cum{function}", at))
    moves = ast.Compare(_later(place, value), [ast.NotEq()], [_earlier(place, value)])
    same: ast.expr = nodes.call(nodes.attribute(writer.context.torch, "equal"), _rises(best, value, function), moves)
    if row.endless is not None:
        sign: ast.cmpop = ast.Gt() if function == "max" else ast.Lt()
        first = ast.Compare(_along_last(best, value, ast.Slice(None, nodes.constant(1))), [sign], [row.endless])
        same = ast.BoolOp(ast.And(), [same, nodes.method(first, "all")])
    with under(writer, ast.UnaryOp(ast.Not(), same), "equal ones, or NaN"):
        found = first_of_equals(writer, row.exact, function, (best, place))
        writer.assign(best.id, found.node)
    return _own(row, best)


def first_of_equals(
    writer: Writer, value: Value, function: str, names: tuple[ast.Name, ast.Name] | None = None
) -> Value:
    """The best so far of candidates that no NaN is among, each with the gradient of the first of equal ones."""
    candidates = value.node
    if not isinstance(candidates, ast.Name):
        candidates = nodes.name(fresh("candidates", writer.printer.words | writer.reads_so_far()))
        writer.assign(candidates.id, value.node)
    best, place = names or _names(writer, function)
    at = nodes.constant(len(value.axes) - 1)
    writer.assign(f"{best.id}, {place.id}", nodes.method(candidates, f"cum{function}", at))
    writer.assign(writer.code(_later(place, value)), _rises(best, value, function), "*=")
    return value.with_node(nodes.method(candidates, "gather", at, scanned(place, "max", at)))


def scanned(node: ast.expr, function: str, at: ast.expr) -> ast.expr:
    return nodes.attribute(nodes.method(node, f"cum{function}", at), "values")


def _own(row: Beginning, node: ast.expr) -> Value:
    """Over the loop's own iterations."""
    value = row.value.with_node(_later(node, row.value) if row.longer else node)
    last = value.axes[-1]
    given = {"sure": value.sure, "unsure": value.unsure}
    lengths = {name: (one - {last}) | {row.along} if last in one else one for name, one in given.items()}
    return replace(value, axes=(*value.axes[:-1], row.along), sure=lengths["sure"], unsure=lengths["unsure"])


def _tracked(writer: Writer, value: Value) -> bool:
    return writer.context.tracked and value.floating and not value.number


def _names(writer: Writer, function: str) -> tuple[ast.Name, ast.Name]:
    taken = writer.printer.words | writer.reads_so_far()
    best = nodes.name(fresh("highest" if function == "max" else "lowest", taken))
    return best, nodes.name(fresh("place", taken))


def _rises(best: ast.expr, value: Value, function: str) -> ast.expr:
    sign: ast.cmpop = ast.Gt() if function == "max" else ast.Lt()
    return ast.Compare(_later(best, value), [sign], [_earlier(best, value)])


def _later(node: ast.expr, value: Value) -> ast.expr:
    return _along_last(node, value, ast.Slice(nodes.constant(1)))


def _earlier(node: ast.expr, value: Value) -> ast.expr:
    return _along_last(node, value, ast.Slice(None, nodes.constant(-1)))


def _along_last(node: ast.expr, value: Value, part: ast.Slice) -> ast.expr:
    return nodes.subscript(node, [*(nodes.whole() for _ in value.axes[:-1]), part])
