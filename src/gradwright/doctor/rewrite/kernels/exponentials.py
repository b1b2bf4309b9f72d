"""Log-sum-exp and softmax along an axis: every exponential is computed once."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence

from gradwright.doctor.rewrite.kernels.rows import elementwise
from gradwright.doctor.rewrite.kernels.scalars import binary, rounded
from gradwright.doctor.rewrite.kernels.values import Extent, Row, Scalar, Value, code, item, of_array
from gradwright.doctor.rewrite.kernels.writer import Writer
from gradwright.doctor.rewrite.source_text import DeclinedError

Place = Callable[[Sequence[ast.expr]], Sequence[ast.expr]]


def logsumexp(writer: Writer, row: Row, gone: Sequence[Extent], place: Place) -> Scalar:
    """log(sum(exp(v - top))) + top, where an infinite top is taken as 0."""
    top, filled = _top(writer, row, gone, place)
    with writer.when(code("math.isinf(top)", top=top)):
        zero = code("like.dtype.type(0)", like=code(writer.like)) if filled else ast.Constant(0.0)
        writer.line("top = zero", top=top, zero=zero)
    total = writer.let("total", ast.Constant(0.0))
    with writer.counted(gone) as inner:
        writer.line("total += math.exp(value - top)", total=total, top=top, value=row.element(place(inner)))
    return rounded(writer, code("math.log(total) + top", total=total, top=top), "float")


def _top(writer: Writer, row: Row, gone: Sequence[Extent], place: Place) -> tuple[ast.expr, bool]:
    """The largest, and whether it is in the tensors' own precision, in which exp is faster: begun with an element."""
    filled = bool(writer.like) and all(writer.sizes.not_empty(extent) for extent in gone)
    first = row.element(place([ast.Constant(0)] * len(gone))) if filled else code("-math.inf")
    top = writer.let("top", first)
    with writer.counted(gone, start=1 if filled and len(gone) == 1 else 0) as inner:
        writer.line("top = max(top, value)", top=top, value=row.element(place(inner)))
    return top, filled


def softmax(writer: Writer, row: Row, axis: int, *, log: bool) -> Value:
    """exp(v - top) / sum(exp(v - top)) along an axis; where top is infinite all are NaN, as torch's. ``log``: of that.

    Raises: DeclinedError.
    """
    if row.type != "float":
        raise DeclinedError("it computes reals from integer tensors, whose precision is torch's default")
    row = writer.settled(row)
    of_one = _log_softmax if log else _softmax
    if len(row.extents) == 1:
        return of_one(writer, row)
    extent, others = row.extents[axis], [one for at, one in enumerate(row.extents) if at != axis]
    made = writer.let("shares", writer.empty(row.extents, "float"))
    with writer.counted(others) as indices:

        def place(inner: Sequence[ast.expr]) -> list[ast.expr]:
            return [*indices[:axis], *inner, *indices[axis:]]

        one = Row((extent,), "float", lambda inner: row.element(place(inner)), native=row.native)
        found = of_one(writer, one)
        with writer.counted([extent]) as inner:
            writer.line("here = value", here=item(made, place(inner)), value=found.element(inner))
    assert isinstance(made, ast.Name)
    return of_array(made.id, row.extents, "float")


def _softmax(writer: Writer, row: Row) -> Row:
    top, _ = _top(writer, row, row.extents, list)
    powers = writer.let("powers", writer.empty(row.extents, "float"))
    total = writer.let("total", ast.Constant(0.0))
    with writer.counted(row.extents) as inner:
        here = item(powers, inner)
        writer.line("here = math.exp(value - top)", here=here, top=top, value=row.element(inner))
        writer.line("total += here", total=total, here=here)
    assert isinstance(powers, ast.Name)
    whole = Scalar(total, "float", True)
    return _each(writer, ast.Div(), of_array(powers.id, row.extents, "float"), whole)


def _log_softmax(writer: Writer, row: Row) -> Row:
    top, _ = _top(writer, row, row.extents, list)
    total = writer.let("total", ast.Constant(0.0))
    with writer.counted(row.extents) as inner:
        writer.line("total += math.exp(value - top)", total=total, top=top, value=row.element(inner))
    norm = rounded(writer, code("math.log(total) + top", total=total, top=top), "float")
    return _each(writer, ast.Sub(), row, Scalar(writer.let("norm", norm.code), "float", True, norm.native))


def _each(writer: Writer, op: ast.operator, row: Row, other: Scalar) -> Row:
    found = elementwise(writer, lambda a, b: binary(writer, op, a, b), row, other)
    assert isinstance(found, Row)
    return found
