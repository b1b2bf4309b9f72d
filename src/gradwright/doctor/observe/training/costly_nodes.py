"""Shapes of a graph that cost more than they must: entries taken one by one, tensors grown by cat, diagonal matrices.

NOTE [what entries cost]: the backward of ``x[i]`` fills a tensor of the shape of ``x`` with zeros, writes one entry of
it, and adds it to the others. In a loop over ``x`` that is its size times its length. ``x.unbind(0)`` is one node,
whose backward stacks what comes back. ``cat`` copies what it is given: a tensor that grows by one row a round is copied
as often as it has rows; a list of rows is copied once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

import torch

from gradwright.doctor.observe.training.row_branches import branches
from gradwright.ground.graphs import nodes_behind
from gradwright.ground.torch_versions.engine import sequence_number
from gradwright.ground.torch_versions.nodes import has_output_metadata, output_metadata

Kind = Literal["entries", "cat", "diagonal", "rows"]

MOST_NODES = 20_000
_FEWEST_ENTRIES, _FEWEST_CATS, _FEWEST_ROWS = 64, 16, 64
_FEWEST_BYTES = 1 << 20

_TAKES = ("SelectBackward", "SliceBackward")
_PRODUCTS = ("MmBackward", "MvBackward", "AddmmBackward", "BmmBackward")
_ON_THE_WAY = ("TBackward", "ViewBackward", "ExpandBackward", "UnsafeViewBackward", "TransposeBackward")


@dataclass(frozen=True)
class Costly:
    """``node``: one of them, the newest. ``shape``: of the tensor that entries are taken of, of the grown tensor, of
    the diagonal matrix, of all rows; ``other``: of one entry, of one part, of what the matrix is multiplied with, of
    the largest tensor that one row makes.

    ``dim``: of a diagonal matrix, whether its diagonal scales rows (0) or columns (1); else -1. ``operations``: of one
    row.
    """

    kind: Kind
    count: int
    shape: tuple[int, ...]
    other: tuple[int, ...]
    dtype: torch.dtype
    device: torch.device
    node: Any
    dim: int = -1
    operations: int = 0

    @property
    def bytes(self) -> int:
        """What is moved for nothing."""
        size = _elements(self.shape) * self.dtype.itemsize
        return self.count * size if self.kind == "entries" else self.count * size // 2 if self.kind == "cat" else size


def costly(root: Any) -> Iterator[Costly]:
    """What the graph behind a node shows. Cost: a walk over at most 20,000 nodes."""
    nodes = [*nodes_behind([root], most=MOST_NODES)]
    found = [*_entries(nodes), *_cats(nodes), *_diagonals(nodes), *_rows(nodes)]
    yield from (one for one in found if one.bytes >= _FEWEST_BYTES or one.kind != "entries")


def _entries(nodes: Iterable[Any]) -> Iterator[Costly]:
    taken: dict[tuple[Any, int], list[Any]] = {}
    for node in nodes:
        if node.name().startswith(_TAKES) and node.next_functions and node.next_functions[0][0] is not None:
            taken.setdefault(node.next_functions[0], []).append(node)
    for (base, number), takers in taken.items():
        if len(takers) < _FEWEST_ENTRIES:
            continue
        whole, part = _made_by(base, number), _made_by(takers[0], 0)
        # Of a chunk that is no small part of the whole, little is filled for nothing.
        if whole is not None and part is not None and 8 * _elements(part[0]) <= _elements(whole[0]):
            yield Costly("entries", len(takers), whole[0], part[0], *whole[1:], max(takers, key=_number))


def _cats(nodes: Iterable[Any]) -> Iterator[Costly]:
    """Chains of ``cat`` in which each is used by the next alone: the last, and how many there are."""
    uses: dict[Any, int] = {}
    before: dict[Any, Any] = {}
    for node in nodes:
        inputs = [one for one, _ in node.next_functions if one is not None]
        for one in inputs:
            uses[one] = uses.get(one, 0) + 1
        if node.name().startswith("CatBackward"):
            before[node] = next((one for one in inputs if one.name().startswith("CatBackward")), None)
    inner = {one for one in before.values() if one is not None}
    for last in before:
        if last in inner:
            continue
        count, node = 1, last
        while (earlier := before.get(node)) is not None and uses[earlier] == 1:
            count, node = count + 1, earlier
        whole, first = _made_by(last, 0), _made_by(node, 0)
        if count >= _FEWEST_CATS and whole is not None and first is not None:
            yield Costly("cat", count, whole[0], first[0], *whole[1:], last)


def _rows(nodes: Iterable[Any]) -> Iterator[Costly]:
    """See NOTE [branches of rows]."""
    for found in branches(nodes):
        row = _made_by(found.widest, 0)
        if row is not None:
            shape = (found.rows, *row[0])
            yield Costly("rows", found.rows, shape, row[0], *row[1:], found.node, operations=found.operations)


def _diagonals(nodes: Iterable[Any]) -> Iterator[Costly]:
    for node in nodes:
        if not node.name().startswith(_PRODUCTS):
            continue
        for place, (factor, _) in enumerate(node.next_functions[-2:]):
            while factor is not None and factor.name().startswith(_ON_THE_WAY):
                factor = factor.next_functions[0][0]
            if factor is None or not factor.name().startswith("DiagEmbedBackward"):
                continue
            matrix, product = _made_by(factor, 0), _made_by(node, 0)
            if matrix is not None and product is not None and matrix[0][-1] >= _FEWEST_ROWS:
                yield Costly("diagonal", 1, matrix[0], product[0], *matrix[1:], node, place)


def _made_by(node: Any, number: int) -> tuple[tuple[int, ...], torch.dtype, torch.device] | None:
    """Shape, dtype and device of the tensor that a node's forward made."""
    variable = getattr(node, "variable", None)
    made = variable
    if made is None:
        metadata = output_metadata(node) if has_output_metadata(node) else ()
        made = metadata[number] if number < len(metadata) else None
    if made is None or made.dtype is None or made.shape is None:
        return None
    return tuple(int(size) for size in made.shape), made.dtype, made.device


def _elements(shape: Iterable[int]) -> int:
    count = 1
    for size in shape:
        count *= size
    return count


def _number(node: Any) -> int:
    number: int = sequence_number(node)
    return number
