"""The part of an array that the loops write."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass

from gradwright.doctor.rewrite.loops import nodes
from gradwright.doctor.rewrite.loops.dimensions import Dimension
from gradwright.doctor.rewrite.loops.ir import Loop, Place
from gradwright.doctor.rewrite.loops.unflattening import by_rows
from gradwright.doctor.rewrite.loops.value import Value
from gradwright.doctor.rewrite.loops.writing import Writer
from gradwright.doctor.rewrite.source_text import DeclinedError

OPERATORS: dict[str, type[ast.operator]] = {"+": ast.Add, "-": ast.Sub, "*": ast.Mult, "/": ast.Div}
IDENTITY = {"+": 0, "-": 0, "*": 1, "/": 1}


@dataclass(frozen=True)
class Stretch:
    """The part of an array that the loops write. ``order``: its axes that loops run over; ``cell`` more follow.

    ``whole``: all of it, as the text shows. ``flips``: axes that the loops run over backwards. ``places``: which axis
    of (loops, cell) each of its axes is, where that is not their order.
    """

    base: str
    node: ast.expr
    order: tuple[Loop, ...]
    cell: int
    whole: bool
    sure: frozenset[Loop]
    dtype: str
    flips: tuple[int, ...] = ()
    places: tuple[int, ...] = ()


def stretch_of(writer: Writer, place: Place, axes: Sequence[Loop]) -> Stretch | None:
    """None where an index comes out of a table. Raises: DeclinedError, where the stretch is no plain one."""
    low = writer.lowering(axes)
    base = ast.parse(place.base, mode="eval").body
    live = writer.context.seen.live_ins.get(place.base) or writer.context.seen.of(base)
    if live is None or live.tensor is None:
        raise DeclinedError(f"{place.base}, which the loop writes into, is no tensor that was seen")
    if any(isinstance(part, ast.Constant) and part.value is Ellipsis for part in place.indices):
        raise DeclinedError("... where the loop writes")
    given = Value(base, (), len(live.tensor.shape), False, live.tensor.dtype)
    whole, indices = by_rows(low.accesses, given, place.base, place.indices)
    dims: list[Dimension] = []
    for axis, index in enumerate(indices):
        dim = low.accesses.dimension(index.part, index.base, index.axis, axis, index.length)
        if dim is None:
            return None
        if dim.window or dim.roll or dim.block or len(dim.labels) > 1:
            raise DeclinedError(f"{place.base} is written at stretches that overlap")
        dims.append(dim)
    labels = [label for dim in dims for label in dim.labels]
    loops = tuple(label for label in labels if isinstance(label, Loop))
    if set(loops) != set(axes):
        raise DeclinedError(f"several iterations write the same element of {place.base}")
    diagonal = len(set(loops)) < len(loops)
    places = () if diagonal else _places(labels, loops, whole.cell - len(indices))
    node = nodes.subscript(whole.node, [dim.part for dim in dims])
    if diagonal and any(dim.flip for dim in dims):
        raise DeclinedError(f"the diagonal of {place.base} is written backwards")
    if diagonal:
        if len(loops) != 2 or whole.cell != 2:
            raise DeclinedError("a diagonal of more than two axes")
        node, loops = nodes.method(node, "diagonal"), loops[:1]
    sure = frozenset[Loop]().union(*(dim.sure for dim in dims))
    flips = tuple(index for index, dim in enumerate(d for d in dims if d.labels) if dim.flip)
    cells = sum(not isinstance(label, Loop) for label in labels) + whole.cell - len(indices)
    return Stretch(place.base, node, loops, cells, node is base, sure, live.tensor.dtype, flips, places)


def _places(labels: Sequence[Loop | int], loops: Sequence[Loop], rest: int) -> tuple[int, ...]:
    """For an array that is written a column at a time: where its axes are among (loops, cell); () if in that order."""
    cells = [label for label in labels if not isinstance(label, Loop)]
    places = tuple(
        loops.index(label) if isinstance(label, Loop) else len(loops) + cells.index(label) for label in labels
    )
    places += tuple(range(len(labels), len(labels) + rest))
    return () if places == tuple(range(len(places))) else places
