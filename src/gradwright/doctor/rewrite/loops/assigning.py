"""Assignments to one target, to several, and to a tuple of them."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import TYPE_CHECKING

from gradwright.doctor.rewrite.loops.actions import assignment
from gradwright.doctor.rewrite.loops.expressions import (
    at,
    fresh,
    name,
    names_of,
    number,
    place_of,
    replaced,
    subscript,
    what,
)
from gradwright.doctor.rewrite.loops.ir import Place
from gradwright.doctor.rewrite.loops.straight import obstacle
from gradwright.doctor.rewrite.loops.tree import Action, Item, root
from gradwright.doctor.rewrite.source_text import DeclinedError

if TYPE_CHECKING:
    from gradwright.doctor.rewrite.loops.reading import Reader


class Assigning:
    def __init__(self, reader: Reader) -> None:
        self.reader = reader

    def assign(self, target: ast.expr, value: ast.expr, node: ast.stmt, items: list[Item]) -> None:
        """``value`` has been read already."""
        if isinstance(target, ast.Name):
            reader = self.reader
            if not reader.branches and reader.definitions.stands_for(target.id, value, node, reader.loops):
                self.reader.names[target.id] = value
                return
            if target.id in self.reader.names:
                raise DeclinedError(f"{target.id} is several things in the loop")
            items.append(assignment(target, value, node, self.reader.seen))
            return
        if isinstance(target, ast.Starred):
            raise DeclinedError(obstacle(node))
        items.append(assignment(self.reader.target(target, items), value, node, self.reader.seen))

    def chained(self, targets: Sequence[ast.expr], node: ast.Assign, items: list[Item]) -> None:
        """``a = b = value``: the value is computed once."""
        value = self.reader.value(node.value, items, node)
        if any(isinstance(target, (ast.Tuple, ast.List)) for target in targets):
            raise DeclinedError(obstacle(node))
        if not isinstance(value, ast.Constant):
            found = what(node.value, self.reader.seen)
            if isinstance(value, (ast.List, ast.Dict)) or (found and found.tensor and found.tensor.shape):
                raise DeclinedError(f"two names for one thing: {ast.unparse(node)}")
            value = self.held("value", value, node, items)
        for target in targets:
            self.assign(target, value, node, items)

    def held(self, wanted: str, value: ast.expr, node: ast.stmt, items: list[Item]) -> ast.expr:
        """A fresh name for a value."""
        identifier = fresh(wanted, self.reader.taken)
        shown = at(name(identifier), value)
        items.append(Action("assign", Place(identifier, (), shown), value, node))
        return shown

    def unpacked(self, target: ast.Tuple | ast.List, node: ast.Assign, items: list[Item]) -> None:
        """``a, b = x[i], y[i]``; all values are computed before the first is assigned."""
        if any(isinstance(one, (ast.Starred, ast.Tuple, ast.List)) for one in target.elts):
            raise DeclinedError(obstacle(node))
        value = self.reader.value(node.value, items, node)
        shown = False
        if isinstance(value, (ast.Tuple, ast.List)):
            values = list(value.elts)
            sources = node.value.elts if isinstance(node.value, (ast.Tuple, ast.List)) else []
            names = {one.id for one in target.elts if isinstance(one, ast.Name)}
            # Views are read when they are copied, one after the other, whatever was written in between.
            shown = len(sources) == len(values) and all(
                self.reader.definitions.is_view(source, one) and not names_of(one) & names
                for source, one in zip(sources, values, strict=True)
            )
        else:
            if isinstance(value, ast.Call):
                value = self.held("pair", value, node, items)
            found = what(value, self.reader.seen)
            if found is None or not (found.tensor or found.type in ("list", "tuple")):
                raise DeclinedError(f"it is not known what is taken apart: {ast.unparse(node)}")
            parts = [subscript(value, [number(position)]) for position in range(len(target.elts))]
            values = [
                replaced(at(part, one), {}, self.reader.seen) for part, one in zip(parts, target.elts, strict=True)
            ]
        if len(values) != len(target.elts) or any(isinstance(one, ast.Starred) for one in values):
            raise DeclinedError(obstacle(node))
        written: set[str] = set()
        for position, one in enumerate(target.elts):
            if not shown and self.reader.definitions.overlap(names_of(values[position]), written):
                break
            written.add(root(place_of(self.reader.target(one, items)).base))
        else:
            for one, single in zip(target.elts, values, strict=True):
                self.assign(one, single, node, items)
            return
        kept = [self.held("new", single, node, items) for single in values]
        for one, single in zip(target.elts, kept, strict=True):
            self.assign(one, single, node, items)
