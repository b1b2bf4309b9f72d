"""``x[i * m + j]`` as an element of ``x.unflatten(0, (n, m))``: what is read or written of rows that lie in a line."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass, replace

from gradwright.doctor.rewrite.loops import nodes
from gradwright.doctor.rewrite.loops.accesses import Accesses
from gradwright.doctor.rewrite.loops.flattened import Unflattened, is_size, unflattened
from gradwright.doctor.rewrite.loops.spans import never_negative
from gradwright.doctor.rewrite.loops.terms import Term
from gradwright.doctor.rewrite.loops.value import Value


@dataclass(frozen=True)
class Index:
    """One index, and which axis of which tensor it speaks of; ``length``: of an axis that only stands for others."""

    part: ast.expr
    base: str
    axis: int
    length: Term | None = None


def by_rows(accesses: Accesses, base: Value, name: str, parts: Sequence[ast.expr]) -> tuple[Value, list[Index]]:
    """The base with an axis for the rows and one for the columns, wherever an index counts both."""
    indices: list[Index] = []
    axis = at = 0
    for part in parts:
        if nodes.is_none(part):
            indices.append(Index(part, name, axis))
            continue
        found = None if base.axes or isinstance(part, ast.Slice) else _rows(accesses, part)
        if found is None:
            indices.append(Index(part, name, axis))
            axis, at = axis + 1, at + 1
            continue
        numbers, sizes, lengths = found
        node = _cut(accesses, base.node, name, axis, at, sizes)
        shape = ast.Tuple(list(sizes), ast.Load())
        node = nodes.method(node, "unflatten", nodes.constant(at), shape)
        base = replace(base, node=node, cell=base.cell + len(sizes) - 1)
        indices += [Index(one, "", axis, length) for one, length in zip(numbers.parts, lengths, strict=True)]
        axis, at = axis + 1, at + len(sizes)
    return base, indices


def _rows(accesses: Accesses, part: ast.expr) -> tuple[Unflattened, list[ast.expr], list[Term]] | None:
    """The indices, the sizes of the axes that they count, and what is known of those."""
    spans = accesses.spans
    if spans.linear(part) is not None:
        return None
    found = unflattened(part, lambda rest, stride: _fits(accesses, rest, stride))
    first = spans.linear(found.parts[0]) if found is not None else None
    if found is None or first is None or not never_negative(spans.extreme(first, -1), spans.lows):
        return None
    rows = spans.extreme(first, 1).plus(Term((), 1))
    lengths = [rows, *(spans.sizes.term(stride) for stride in found.strides)]
    known = [length for length in lengths if length is not None]
    return (found, [accesses.end(rows), *found.strides], known) if len(known) == len(lengths) else None


def _fits(accesses: Accesses, rest: ast.expr, stride: ast.expr) -> bool:
    spans = accesses.spans
    if not is_size(stride) or nodes.names_in(stride) & (spans.changing | set(spans.loops)):
        return False
    linear, length = spans.linear(rest), spans.sizes.term(stride)
    if linear is None or length is None or not never_negative(spans.extreme(linear, -1), spans.lows):
        return False
    room = length.minus(spans.extreme(linear, 1))
    return room is not None and room >= 1


def _cut(accesses: Accesses, node: ast.expr, name: str, axis: int, at: int, sizes: Sequence[ast.expr]) -> ast.expr:
    """As many elements as there are rows and columns; all of them, where the text shows that there are no more."""
    product = sizes[0]
    for size in sizes[1:]:
        product = ast.BinOp(product, ast.Mult(), size)
    terms = accesses.spans.sizes
    length = terms.length(name, axis) if name else None
    if length is not None and length == terms.term(product):
        return node
    return nodes.subscript(node, [*(nodes.whole() for _ in range(at)), ast.Slice(None, product)])
