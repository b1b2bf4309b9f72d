"""Writes into tensors and lists: element by element, never before all that is read has been read."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass

from gradwright.doctor.rewrite.kernels import scalars
from gradwright.doctor.rewrite.kernels.arguments import Arguments
from gradwright.doctor.rewrite.kernels.rows import scalar_of, spread
from gradwright.doctor.rewrite.kernels.values import (
    Row,
    Scalar,
    Value,
    item,
)
from gradwright.doctor.rewrite.kernels.writer import Writer
from gradwright.doctor.rewrite.loops.nodes import name
from gradwright.doctor.rewrite.source_text import DeclinedError


@dataclass
class Appended:
    """What a list gets: the array that is filled instead, the number that counts, the value appended at ``node``."""

    node: ast.expr
    array: str
    count: str
    value: Row | Scalar


class Stores:
    """``fresh``: arrays that share no memory with another, as the text shows. ``body``: the loop's own statements."""

    def __init__(self, writer: Writer, arguments: Arguments, fresh: frozenset[str], loop: ast.For | ast.While) -> None:
        self.writer = writer
        self.arguments = arguments
        self.fresh = fresh
        self.loop = loop
        self.written: set[str] = set()
        self.lists: dict[str, Appended] = {}
        self.trips: ast.expr | None = None

    # --- tensors -----------------------------------------------------------------------------------------------------

    def store(self, place: Row | Scalar, value: Value) -> None:
        """``place[...] = value``."""
        value = self._given(place, value)
        self._fill(place, value, lambda here, new: new.code)

    def update(self, place: Row | Scalar, op: ast.operator, value: Value) -> None:
        """``place[...] op= value``, in the place's own dtype."""
        value = self._given(place, value)

        def changed(here: Scalar, new: Scalar) -> ast.expr:
            found = scalars.binary(self.writer, op, here, new)
            if found.type != here.type:
                raise DeclinedError("it adds reals to integers in place, which torch refuses")
            return found.code

        self._fill(place, value, changed)

    def _given(self, place: Row | Scalar, value: Value) -> Row | Scalar:
        if not isinstance(value, Row | Scalar) or (isinstance(value, Row) and value.listed):
            raise DeclinedError("it stores a list or a tuple into a tensor")
        if value.type == "float" and place.type != "float":
            raise DeclinedError("it stores reals into integers")
        if isinstance(place, Row):
            self.written |= place.reads
            if isinstance(value, Row) and any(self._may_share(a, b) for a in place.reads for b in value.reads):
                return self.writer.copied(value)
        elif isinstance(place.code, ast.Subscript):
            self.written |= {one.id for one in ast.walk(place.code.value) if isinstance(one, ast.Name)}
        return value

    def _fill(self, place: Row | Scalar, value: Row | Scalar, new: object) -> None:
        assert callable(new)
        if isinstance(place, Scalar):
            if isinstance(value, Row):
                raise DeclinedError("it stores a tensor with axes into one element")
            self._put(place, new(place, value))
            return
        rank = len(place.extents)
        if isinstance(value, Row):
            if len(value.extents) > rank:
                raise DeclinedError("it stores a tensor into one of fewer axes")
            value = spread(self.writer, value, rank)
            for one, other in zip(place.extents, value.extents, strict=True):
                if not self.writer.sizes.single(other) and not self.writer.sizes.equal(one, other):
                    raise DeclinedError("it stores a part of a tensor whose length nothing shows to agree")
        with self.writer.counted(place.extents) as indices:
            here = scalar_of(place, indices)
            if isinstance(value, Row):
                at = [
                    ast.Constant(0) if self.writer.sizes.single(extent) else index
                    for extent, index in zip(value.extents, indices, strict=True)
                ]
                self._put(here, new(here, scalar_of(value, at)))
            else:
                self._put(here, new(here, value))

    def _put(self, here: Scalar, value: ast.expr) -> None:
        text = ast.unparse(here.code)
        if isinstance(value, ast.BinOp) and ast.unparse(value.left) == text:
            target = ast.Subscript(here.code.value, here.code.slice, ast.Store())  # type: ignore[attr-defined]  # an element
            self.writer.put(ast.AugAssign(target, value.op, value.right))
        else:
            self.writer.line("here = value", here=here.code, value=value)

    def _may_share(self, one: str, other: str) -> bool:
        if one == other:
            return True
        memories = [tensor.memory if (tensor := self.arguments.tensor(array)) else 0 for array in (one, other)]
        if memories[0] and memories[0] == memories[1]:
            return True
        known = [array in self.fresh or self.arguments.tensor(array) is None for array in (one, other)]
        return not any(known)

    # --- lists -------------------------------------------------------------------------------------------------------

    def append(self, user_name: str, value: Value, node: ast.expr, loops: Sequence[ast.stmt]) -> None:
        """The list becomes an array with room for one row per round."""
        if self.trips is None or list(loops) != [self.loop]:
            raise DeclinedError(f"how often {user_name} is appended to is not known before the loop")
        if not isinstance(value, Row | Scalar) or value.type == "bool" or (isinstance(value, Row) and value.listed):
            raise DeclinedError(f"it appends something other than numbers or rows to {user_name}")
        extents = value.extents if isinstance(value, Row) else ()
        if any(not extent.outer for extent in extents):
            raise DeclinedError(f"the length of what is appended to {user_name} is not known before the loop")
        before = self.lists.get(user_name)
        if before is not None and before.node is not node:
            raise DeclinedError(f"it appends to {user_name} in several places")
        made = before.array if before else self.writer.reserve(f"{user_name}_rows")
        count = before.count if before else self.writer.reserve("count")
        self.lists[user_name] = Appended(node, made, count, value)
        place = [name(count)]
        if isinstance(value, Row):
            with self.writer.counted(extents) as indices:
                self.writer.line("here = v", here=item(name(made), [*place, *indices]), v=value.element(indices))
        else:
            self.writer.line("here = v", here=item(name(made), place), v=value.code)
        self.writer.line(f"{count} += 1")

    def begun(self) -> list[ast.stmt]:
        """What the kernel begins with, for its lists."""
        found: list[ast.stmt] = []
        for one in self.lists.values():
            extents = one.value.extents if isinstance(one.value, Row) else ()
            python = isinstance(one.value, Scalar) and one.value.tensor is False
            with self.writer.block() as block:
                sizes = [ast.unparse(self.trips), *(extent.code for extent in extents)] if self.trips else []
                shape = sizes[0] if len(sizes) == 1 else f"({', '.join(sizes)})"
                dtype = "np.float64" if python and one.value.type == "float" else self.writer.dtype(one.value.type)
                self.writer.line(f"{one.array} = np.empty({shape}, {dtype})")
                self.writer.line(f"{one.count} = 0")
            found += block
        return found

    def exact(self, user_name: str) -> bool:
        """Whether every round appends once."""
        own = [one for one in self.loop.body if isinstance(one, ast.Expr) and one.value is self.lists[user_name].node]
        left = any(isinstance(one, ast.Break | ast.Continue) for one in ast.walk(self.loop))
        return bool(own) and not left
