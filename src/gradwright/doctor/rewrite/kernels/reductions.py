"""Sums, products and extremes along an axis, and products of matrices: loops that gather."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from dataclasses import replace

from gradwright.doctor.rewrite.kernels.exponentials import logsumexp
from gradwright.doctor.rewrite.kernels.rows import elementwise, scalar_of
from gradwright.doctor.rewrite.kernels.scalars import binary, rounded, unary
from gradwright.doctor.rewrite.kernels.values import (
    ONE,
    Extent,
    Row,
    Scalar,
    Several,
    Type,
    Value,
    code,
    item,
    of_array,
)
from gradwright.doctor.rewrite.kernels.writer import Writer
from gradwright.doctor.rewrite.source_text import DeclinedError

Gather = Callable[[Writer, Row, Sequence[Extent], Callable[[Sequence[ast.expr]], Sequence[ast.expr]]], Scalar]


def reduce(writer: Writer, function: str, row: Row, axes: Sequence[int], keepdim: bool = False) -> Value:
    """``function`` over some axes. Raises: DeclinedError."""
    gather, result = _GATHERS[function]
    row = writer.settled(row)
    if row.listed:
        raise DeclinedError("it reduces a list as if it were a tensor")
    if row.type == "bool" and function not in ("any", "all", "sum"):
        raise DeclinedError(f"it takes the {function} of truth values")
    if row.type != "float" and function in ("mean", "logsumexp", "norm"):
        raise DeclinedError("it computes reals from integer tensors, whose precision is torch's default")
    gone = [row.extents[axis] for axis in axes]
    if function in ("amax", "amin", "argmax", "argmin"):
        for extent in gone:
            nonempty(writer, extent)
    kept = [axis for axis in range(len(row.extents)) if axis not in axes]

    def at(indices: Sequence[ast.expr]) -> Scalar:
        def place(inner: Sequence[ast.expr]) -> Sequence[ast.expr]:
            own = dict(zip(kept, indices, strict=True)) | dict(zip(axes, inner, strict=True))
            return [own[axis] for axis in range(len(row.extents))]

        return gather(writer, row, gone, place)

    type_ = result or ("int" if row.type == "bool" else row.type)
    if not kept and not keepdim:
        found = at([])
        return Scalar(found.code, type_, True, found.native)
    native = writer.exact and type_ == "float"
    if keepdim:
        extents = tuple(ONE if axis in axes else extent for axis, extent in enumerate(row.extents))
        whole = Row(extents, type_, lambda given: at([given[axis] for axis in kept]).code, None, row.reads, True)
    else:
        extents = tuple(row.extents[axis] for axis in kept)
        whole = Row(extents, type_, lambda given: at(given).code, None, row.reads, True)
    return replace(whole, native=native)


def nonempty(writer: Writer, extent: Extent) -> None:
    """An extreme of nothing raises, here as in torch."""
    if not writer.sizes.not_empty(extent):
        writer.check(code(f"{extent.code} == 0"), "IndexError", "it takes the maximum or minimum of nothing")


# --- what is gathered ------------------------------------------------------------------------------------------------


def _sum(writer: Writer, row: Row, gone: Sequence[Extent], place: Callable[..., Sequence[ast.expr]]) -> Scalar:
    total = writer.let("total", ast.Constant(0.0 if row.type == "float" else 0))
    with writer.counted(gone) as inner:
        writer.line("total += value", total=total, value=row.element(place(inner)))
    return rounded(writer, total, "float" if row.type == "float" else "int")


def _prod(writer: Writer, row: Row, gone: Sequence[Extent], place: Callable[..., Sequence[ast.expr]]) -> Scalar:
    product = writer.let("product", ast.Constant(1.0 if row.type == "float" else 1))
    with writer.counted(gone) as inner:
        writer.line("product *= value", product=product, value=row.element(place(inner)))
    return rounded(writer, product, row.type)


def _mean(writer: Writer, row: Row, gone: Sequence[Extent], place: Callable[..., Sequence[ast.expr]]) -> Scalar:
    total = _sum(writer, row, gone, place)
    count = " * ".join(f"({extent.code})" for extent in gone)
    return rounded(writer, code("total / count", total=total.code, count=code(count)), "float")


def _norm(writer: Writer, row: Row, gone: Sequence[Extent], place: Callable[..., Sequence[ast.expr]]) -> Scalar:
    squares = elementwise(writer, lambda v: unary(writer, "square", v), row)
    assert isinstance(squares, Row)
    total = _sum(writer, squares, gone, place)
    return rounded(writer, code("math.sqrt(total)", total=total.code), "float")


def _extreme(function: str) -> Gather:
    def gather(writer: Writer, row: Row, gone: Sequence[Extent], place: Callable[..., Sequence[ast.expr]]) -> Scalar:
        first = row.element(place([ast.Constant(0)] * len(gone)))
        best = writer.let("best", first)
        # np's, which give NaN for NaN as torch does
        with writer.counted(gone) as inner:
            value = row.element(place(inner))
            writer.line(f"best = np.{function}(best, value)", best=best, value=value)
        return Scalar(best, row.type, True, row.native)

    return gather


def _where_extreme(sign: str) -> Gather:
    def gather(writer: Writer, row: Row, gone: Sequence[Extent], place: Callable[..., Sequence[ast.expr]]) -> Scalar:
        if len(gone) > 1:
            raise DeclinedError("it takes the place of a maximum in several axes at once")
        return _best(writer, row, gone, place, sign)[1]

    return gather


def _best(
    writer: Writer, row: Row, gone: Sequence[Extent], place: Callable[..., Sequence[ast.expr]], sign: str
) -> tuple[Scalar, Scalar]:
    """The extreme and its index: of equal ones the first, and NaN before all, as torch's."""
    writer.compares_reals = writer.compares_reals or row.type == "float"
    best = writer.let("best", row.element(place([ast.Constant(0)])))
    where = writer.let("where", ast.Constant(0))
    with writer.counted(gone, start=1) as inner:
        value = writer.let("value", row.element(place(inner)))
        nan = " or (v != v and best == best)" if row.type == "float" else ""
        with writer.when(code(f"v {sign} best{nan}", v=value, best=best)):
            writer.line("best = v", best=best, v=value)
            writer.line("where = at", where=where, at=inner[0])
    return Scalar(best, row.type, True, row.native), Scalar(where, "int", True)


def extreme_with_index(writer: Writer, row: Row, axis: int, sign: str) -> Several:
    """``row.max(axis)``: values and indices."""
    row = writer.settled(row)
    if row.type == "bool":
        raise DeclinedError("it takes the maximum of truth values")
    nonempty(writer, row.extents[axis])
    kept = [one for one in range(len(row.extents)) if one != axis]

    def place_of(indices: Sequence[ast.expr]) -> Callable[[Sequence[ast.expr]], Sequence[ast.expr]]:
        def place(inner: Sequence[ast.expr]) -> list[ast.expr]:
            own = list(indices)
            own.insert(axis, inner[0])
            return own

        return place

    if not kept:
        return Several(_best(writer, row, row.extents, place_of([]), sign), ("values", "indices"))
    extents = tuple(row.extents[one] for one in kept)
    values = writer.let("values", writer.empty(extents, row.type))
    places = writer.let("places", writer.empty(extents, "int"))
    with writer.counted(extents) as indices:
        best, where = _best(writer, row, [row.extents[axis]], place_of(indices), sign)
        writer.line("here = v", here=item(values, indices), v=best.code)
        writer.line("here = v", here=item(places, indices), v=where.code)
    assert isinstance(values, ast.Name) and isinstance(places, ast.Name)
    made = of_array(values.id, extents, row.type), of_array(places.id, extents, "int")
    return Several(made, ("values", "indices"))


def _any(writer: Writer, row: Row, gone: Sequence[Extent], place: Callable[..., Sequence[ast.expr]]) -> Scalar:
    found = writer.let("found", ast.Constant(False))
    with writer.counted(gone) as inner:
        writer.line("found = found or value != 0", found=found, value=row.element(place(inner)))
    return Scalar(found, "bool", True)


def _all(writer: Writer, row: Row, gone: Sequence[Extent], place: Callable[..., Sequence[ast.expr]]) -> Scalar:
    found = writer.let("found", ast.Constant(True))
    with writer.counted(gone) as inner:
        writer.line("found = found and value != 0", found=found, value=row.element(place(inner)))
    return Scalar(found, "bool", True)


_GATHERS: dict[str, tuple[Gather, Type | None]] = {
    "sum": (_sum, None), "prod": (_prod, None), "mean": (_mean, "float"), "norm": (_norm, "float"),
    "logsumexp": (logsumexp, "float"), "amax": (_extreme("maximum"), None), "amin": (_extreme("minimum"), None),
    "argmax": (_where_extreme(">"), "int"), "argmin": (_where_extreme("<"), "int"), "any": (_any, "bool"),
    "all": (_all, "bool"),
}  # fmt: skip
REDUCTIONS = frozenset(_GATHERS)


def matmul(writer: Writer, a: Row, b: Row) -> Value:
    """``a @ b`` of vectors and matrices. Raises: DeclinedError."""
    a, b = writer.settled(a), writer.settled(b)
    if not (1 <= len(a.extents) <= 2 and 1 <= len(b.extents) <= 2) or (a.type, b.type) != ("float", "float"):
        raise DeclinedError("it multiplies batches of matrices, or integers")
    inner = a.extents[-1]
    if not writer.sizes.equal(inner, b.extents[0]):
        writer.check(code(f"{inner.code} != {b.extents[0].code}"), "RuntimeError", "inconsistent tensor size")
    left, right = a.extents[:-1], b.extents[1:]

    def at(indices: Sequence[ast.expr]) -> Scalar:
        total = writer.let("total", ast.Constant(0.0))
        with writer.counted([inner]) as (k,):
            product = binary(
                writer,
                ast.Mult(),
                scalar_of(a, [*indices[: len(left)], k]),
                scalar_of(b, [k, *indices[len(left) :]]),
            )
            writer.line("total += product", total=total, product=product.code)
        return rounded(writer, total, "float")

    if not left and not right:
        return at([])
    reads = a.reads | b.reads
    return Row((*left, *right), "float", lambda indices: at(indices).code, None, reads, True, native=writer.exact)
