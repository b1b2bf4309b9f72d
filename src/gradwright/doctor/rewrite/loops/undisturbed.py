"""The best of every row as torch finds it, and as the loop does only where a NaN is about.

    highest, place = x.max(-1)
    if highest.isnan().any():  # NaN wins in torch, never in the loop
        highest, place = torch.where(x > x[:, 0, None], x, x[:, 0, None]).max(-1)

max and min along an axis give the first of equal ones, for values, places and gradients, as the loop does.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from gradwright.doctor.rewrite.loops import nodes
from gradwright.doctor.rewrite.loops.beginnings import first_of
from gradwright.doctor.rewrite.loops.candidates import as_exact, function_of, is_endless, start_of, ties
from gradwright.doctor.rewrite.loops.expressions import fresh
from gradwright.doctor.rewrite.loops.ir import Loop, Statement, Vector
from gradwright.doctor.rewrite.loops.keeping import is_kept
from gradwright.doctor.rewrite.loops.lowering import Lowering
from gradwright.doctor.rewrite.loops.stores import chosen
from gradwright.doctor.rewrite.loops.value import Value, aligned
from gradwright.doctor.rewrite.loops.writing import Writer

NAN_WINS = "NaN wins in torch, never in the loop"


@dataclass(frozen=True)
class Rows:
    """``plain``: all that is compared, along the last axis, what the best begins as at first. ``exact``: the same, with
    that in the place of what loses to it, NaN too. ``value``: of what kind both are; ``kept``: the axes of the best.
    ``along``: the loop that the rows are over, from the one that the best begins as."""

    value: Value
    plain: ast.expr
    exact: ast.expr
    kept: tuple[Loop, ...]
    along: Loop | None = None


def rows_from_their_first(writer: Writer, vector: Vector) -> Rows | None:
    """None where the best begins otherwise, or where a row may be empty though there is something to begin with."""
    statement = vector.statement
    if len(vector.reduced) != 1 or statement.guards or ties(statement) != "first":
        return None
    (loop,) = vector.reduced
    begin = first_of(writer, statement, loop)
    if begin is None:
        return None
    along = replace(loop, start=nodes.constant(begin))
    order = (*(one for one in vector.axes if one is not loop), along)
    value = writer.lowered(order, lambda low: low.expression(statement.value))
    low = writer.lowering(order)
    if value.axes != order or not is_comparable(writer, value, statement.value):
        return None
    if _may_be_empty(value) or any(low.spans.triangular(one) for one in order):
        return None
    exact = the_better(low, statement, value, start_of(writer, statement.target.base))
    return Rows(value, value.node, exact.node, order[:-1], along)


def after_first(vector: Vector, rows: Rows) -> Vector:
    """The same over the iterations after the one that the best begins as."""
    assert rows.along is not None
    begin = nodes.integer(rows.along.start) or 0
    rest = replace(rows.along, start=nodes.constant(begin + 1))
    return replace(vector, axes=(*rows.kept, rest), reduced=(rest,))


def as_compared(writer: Writer, vector: Vector, start: Value, better: Value) -> Value | None:
    """What is compared, also where it loses to the start, where torch may be given that; of the kind of ``better``."""
    statement = vector.statement
    if (
        statement.guards
        or ties(statement) != "first"
        or (is_endless(start, function_of(statement)) and not better.floating)
    ):
        return None
    order = (*(loop for loop in vector.axes if loop not in vector.reduced), *vector.reduced)
    value = writer.lowered(order, lambda low: low.expression(statement.value))
    triangular = any(writer.lowering(order).spans.triangular(loop) for loop in order)
    if triangular or value.axes != better.axes or not is_comparable(writer, value, statement.value):
        return None
    value = as_exact(value, start)
    return value if value.dtype == better.dtype else None


def is_comparable(writer: Writer, value: Value, node: ast.expr) -> bool:
    """Whether torch compares what the loop compares: what loses must not be computed, where care is asked for and it is
    computed; Python's arithmetic has more digits than a tensor's."""
    tracked = value.floating and not value.number and writer.context.tracked
    if value.domain or value.boolean or value.cell:
        return False
    return is_read(value.node) or not (
        (tracked and writer.context.careful) or (value.number and not _is_item(writer, node))
    )


def _is_item(writer: Writer, node: ast.expr) -> bool:
    """``torch.sum(x[i] * y).item()``: a number that a tensor had."""
    known = writer.context.known.get(node.id) if isinstance(node, ast.Name) else None
    if known is not None and known.source is not None:
        return _is_item(writer, known.source)
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "item"


def the_better(low: Lowering, statement: Statement, value: Value, start: Value) -> Value:
    """The value where it is better than the start, and the start where it is not."""
    both = low.together([value, start])
    one, other = aligned(both, low.order)
    sign: ast.cmpop = ast.Gt() if function_of(statement) == "max" else ast.Lt()
    wins = low.combined(ast.Compare(one, [sign], [other]), both, "bool")
    return chosen(low, [(replace(wins, live=False, domain=False), True)], value, start)


def best_of_rows(writer: Writer, statement: Statement, rows: Rows) -> tuple[ast.expr, ast.expr]:
    """The best and its place, whose lines are written."""
    value, function, placed = rows.value, function_of(statement), bool(statement.also)
    taken = writer.printer.words | writer.reads_so_far()
    best = nodes.name(fresh("highest" if function == "max" else "lowest", taken))
    place = nodes.name(fresh("place", taken))
    last = [nodes.constant(-1)] if rows.kept else []
    if not value.floating and placed and not is_kept(writer, statement.target.base):
        return best, nodes.method(rows.plain, f"arg{function}", *last)
    tracked = value.floating and not value.number and writer.context.tracked
    names = f"{best.id}, {place.id}" if placed else best.id

    def found(row: ast.expr) -> ast.expr:
        if not placed and not tracked:
            return nodes.method(row, f"a{function}", *last)
        both = nodes.method(row, function, *(last or [nodes.constant(0)]))
        return both if placed else nodes.attribute(both, "values")  # amax shares the gradient between equal ones

    writer.assign(names, found(rows.plain))
    if value.floating:
        wrong = nodes.method(best, "isnan")
        with under(writer, nodes.method(wrong, "any") if rows.kept else wrong, NAN_WINS):
            writer.assign(names, found(rows.exact))
    return best, place


@contextmanager
def under(writer: Writer, test: ast.expr, why: str) -> Iterator[None]:
    """What is written here stands under ``if test:``."""
    writer.write(f"if {writer.code(test)}:  # {why}")
    writer.depth += 1
    yield
    writer.depth -= 1


def is_read(node: ast.expr) -> bool:
    """``x[:, 1:].transpose(1, 2)``: nothing is computed, so that nothing is divided or overflows."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        return node.func.attr in ("transpose", "permute") and is_read(node.func.value)
    if isinstance(node, ast.Subscript | ast.Attribute):
        return is_read(node.value)
    return isinstance(node, ast.Name)


def _may_be_empty(row: Value) -> bool:
    """Whether it may end before the one that the best begins as: ``x[:m]`` where m is 0."""
    parts: list[ast.expr] = [one for one in ast.walk(row.node) if isinstance(one, ast.Slice | ast.Call)]
    if isinstance(row.node, ast.Subscript) and isinstance(row.node.value, ast.Name | ast.Attribute):
        index = row.node.slice
        indices = index.elts if isinstance(index, ast.Tuple) else [index]
        slices: list[ast.expr] = [one for one in indices if isinstance(one, ast.Slice)]
        parts = slices[len(row.axes) - 1 :]
    counted = any(isinstance(one, ast.Call) and _is_arange(one) for one in parts)
    return counted or any(isinstance(one, ast.Slice) and one.upper is not None for one in parts)


def _is_arange(call: ast.Call) -> bool:
    return isinstance(call.func, ast.Attribute) and call.func.attr == "arange"
