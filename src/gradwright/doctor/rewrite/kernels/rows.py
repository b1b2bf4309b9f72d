"""Rows: tensors with axes, computed element by element in loops of the kernel's own."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from gradwright.doctor.rewrite.kernels.values import ONE, Extent, Row, Scalar, Type, Value, code, item, of_array
from gradwright.doctor.rewrite.kernels.writer import Writer
from gradwright.doctor.rewrite.source_text import DeclinedError

_ZERO = ast.Constant(0)


def scalar_of(row: Row, indices: Sequence[ast.expr]) -> Scalar:
    """One element."""
    return Scalar(row.element(indices), row.type, not row.listed, row.native)


def elementwise(writer: Writer, function: Callable[..., Scalar], *operands: Value) -> Value:
    """``function`` of scalars on values that broadcast together. Raises: DeclinedError."""
    for one in operands:
        if not isinstance(one, Row | Scalar) or (isinstance(one, Row) and one.listed):
            raise DeclinedError("it computes with lists or tuples")
    if all(isinstance(one, Scalar) for one in operands):
        return function(*operands)
    rank = max(len(one.extents) for one in operands if isinstance(one, Row))
    parts = [spread(writer, one, rank) if isinstance(one, Row) else one for one in operands]
    rows = [one for one in parts if isinstance(one, Row)]
    extents = tuple(_together(writer, [row.extents[axis] for row in rows]) for axis in range(rank))
    if any(row.heavy and _stretched(writer, row, extents) for row in rows):
        parts = [
            writer.settled(one) if isinstance(one, Row) and _stretched(writer, one, extents) else one for one in parts
        ]
        rows = [one for one in parts if isinstance(one, Row)]

    def result(indices: Sequence[ast.expr]) -> Scalar:
        own = []
        for one in parts:
            if isinstance(one, Row):
                at = [_ZERO if writer.sizes.single(e) else i for e, i in zip(one.extents, indices, strict=True)]
                own.append(scalar_of(one, at))
            else:
                assert isinstance(one, Scalar)
                own.append(one)
        return function(*own)

    used = set(writer.used)
    with writer.block():  # only its type is asked for
        kind = result([ast.Name("_", ast.Load())] * rank)
    writer.used = used
    reads = frozenset[str]().union(*(row.reads for row in rows))
    heavy = any(row.heavy for row in rows)
    return Row(extents, kind.type, lambda indices: result(indices).code, None, reads, heavy, native=kind.native)


def _together(writer: Writer, extents: list[Extent]) -> Extent:
    whole = ONE
    for extent in extents:
        found = writer.sizes.together(whole, extent)
        if found is None:
            raise DeclinedError("it computes with parts of tensors whose lengths nothing shows to agree")
        whole = found
    return whole


def _stretched(writer: Writer, row: Row, extents: Sequence[Extent]) -> bool:
    return not all(writer.sizes.known_equal(one, other) for one, other in zip(row.extents, extents, strict=True))


def spread(writer: Writer, row: Row, rank: int) -> Row:
    """The row with axes of length 1 in front."""
    more = rank - len(row.extents)
    if not more:
        return row
    if row.heavy:
        row = writer.copied(row)
    kept = row
    return replace(
        kept, extents=(*[ONE] * more, *kept.extents), element=lambda indices: kept.element(indices[more:]), array=None
    )


# --- indices ---------------------------------------------------------------------------------------------------------

Part = Scalar | Row | ast.Slice | None


def subscript(writer: Writer, row: Row, parts: Sequence[Part]) -> Value:
    """``row[parts]``: None is a new axis, a row of integers takes its elements. Raises: DeclinedError."""
    if sum(part is not None for part in parts) > len(row.extents):
        raise DeclinedError("it has more indices than axes")
    if row.heavy:
        row = writer.copied(row)
    if any(isinstance(part, ast.Slice) and not _whole(part) for part in parts):
        row, parts = _sliced(writer, row, parts)
    gathering = [part for part in parts if isinstance(part, Row)]
    if len(gathering) > 1 or (gathering and (not isinstance(parts[0], Row) or len(parts) > 1)):
        raise DeclinedError("it indexes with several tensors, or behind other indices")
    extents: list[Extent] = []
    plan: list[tuple[str, Any]] = []
    axes = iter(range(len(row.extents)))
    for part in parts:
        if part is None:
            plan.append(("new", None))
            extents.append(ONE)
        elif isinstance(part, Row):
            if part.type != "int" or part.listed:
                raise DeclinedError("it picks elements with a mask or a list")
            next(axes)
            plan += [("gather", writer.settled(part))]
            extents += part.extents
        elif isinstance(part, ast.Slice):
            plan.append(("axis", None))
            extents.append(row.extents[next(axes)])
        else:
            if part.type != "int":
                raise DeclinedError("it indexes with something other than an integer")
            next(axes)
            plan.append(("at", part.code))
    rest = list(axes)
    plan += [("axis", None)] * len(rest)
    extents += [row.extents[axis] for axis in rest]
    base = row

    def element(indices: Sequence[ast.expr]) -> ast.expr:
        own, left = [], list(indices)
        for what, given in plan:
            if what == "at":
                own.append(given)
            elif what == "gather":
                taken = [left.pop(0) for _ in given.extents]
                own.append(given.element(taken))
            else:
                at = left.pop(0)
                own += [at] if what == "axis" else []
        return base.element(own)

    if not extents:
        return Scalar(element([]), row.type, not row.listed, row.native)
    plain = row.array is not None and not gathering and None not in parts
    array = _view(row.array, plan) if plain and row.array is not None else None
    reads = row.reads.union(*(part.reads for part in gathering))
    return Row(tuple(extents), row.type, element, array, reads, native=row.native)


def _view(array: ast.expr, plan: list[tuple[str, Any]]) -> ast.expr | None:
    parts: list[ast.expr] = [given if what == "at" else ast.Slice() for what, given in plan]
    while parts and isinstance(parts[-1], ast.Slice):
        parts.pop()
    if not parts:
        return array
    return item(array, parts) if isinstance(array, ast.Name) else None


def _whole(part: ast.Slice) -> bool:
    return part.lower is None and part.upper is None and part.step is None


def _sliced(writer: Writer, row: Row, parts: Sequence[Part]) -> tuple[Row, list[Part]]:
    """The stretch of the array as an array of its own, so that its lengths are what Python's slices give."""
    row = writer.array(row)
    assert row.array is not None
    own: list[ast.expr] = []
    left: list[Part] = []
    extents: list[Extent] = []
    axis = 0
    for part in parts:
        if part is None:
            left.append(None)
            continue
        if isinstance(part, Scalar):
            if part.type != "int":
                raise DeclinedError("it indexes with something other than an integer")
            own.append(part.code)
        elif isinstance(part, ast.Slice):
            own.append(part)
            left.append(ast.Slice())
            before, text = row.extents[axis], ast.unparse(part)
            written = _written_length(writer, before, part)
            cut = Extent(("slice", before.key, text), "", cut=(before, text))
            extents.append(before if _whole(part) else written or cut)
        else:
            raise DeclinedError("it indexes with several tensors, or behind other indices")
        axis += 1
    extents += row.extents[axis:]
    view = writer.let("part", item(row.array, own))
    assert isinstance(view, ast.Name)
    named = [one if one.code else replace(one, code=f"{view.id}.shape[{at}]") for at, one in enumerate(extents)]
    return of_array(view.id, tuple(named), row.type, row.reads), left


def _written_length(writer: Writer, axis: Extent, part: ast.Slice) -> Extent | None:
    """``z[3:6]`` is 3 long where ``z`` is long enough, which is asked before the call."""
    ends = [part.lower or _ZERO, part.upper]
    if part.step is not None or not all(isinstance(end, ast.Constant) for end in ends) or not axis.outer:
        return None
    start, stop = (end.value for end in ends)  # type: ignore[union-attr]  # constants
    if not isinstance(start, int) or not isinstance(stop, int) or not start < stop or (axis.size or 0) < stop:
        return None
    writer.sizes.conditions[f"{axis.code} >= {stop}"] = None
    return Extent(("literal", stop - start), str(stop - start), stop - start, True)


# --- shapes ----------------------------------------------------------------------------------------------------------


def permuted(writer: Writer, row: Row, order: Sequence[int]) -> Row:
    kept = writer.settled(row)

    def element(indices: Sequence[ast.expr]) -> ast.expr:
        own: list[ast.expr] = [_ZERO] * len(order)
        for index, axis in zip(indices, order, strict=True):
            own[axis] = index
        return kept.element(own)

    return replace(kept, extents=tuple(kept.extents[axis] for axis in order), element=element, array=None)


def flipped(writer: Writer, row: Row, axis: int) -> Row:
    kept = writer.settled(row)
    length = code(kept.extents[axis].code)

    def element(indices: Sequence[ast.expr]) -> ast.expr:
        own = list(indices)
        own[axis] = code("n - 1 - at", n=length, at=own[axis])
        return kept.element(own)

    return replace(kept, element=element, array=None)


def with_new_axis(writer: Writer, row: Row, axis: int) -> Row:
    kept = writer.settled(row)
    extents = (*kept.extents[:axis], ONE, *kept.extents[axis:])
    return replace(kept, extents=extents, element=lambda at: kept.element([*at[:axis], *at[axis + 1 :]]), array=None)


def stacked(writer: Writer, parts: Sequence[Scalar]) -> Row:
    """``torch.stack`` of scalars: a small array."""
    types: set[Type] = {part.type for part in parts}
    if len(types) != 1 or not parts:
        raise DeclinedError("it stacks numbers of several types")
    extents = (Extent(("literal", len(parts)), str(len(parts)), len(parts), True),)
    (type_,) = types
    made = writer.let("row", writer.empty(extents, type_))
    for at, part in enumerate(parts):
        writer.line("here = value", here=item(made, [ast.Constant(at)]), value=part.code)
    assert isinstance(made, ast.Name)
    return of_array(made.id, extents, type_)
