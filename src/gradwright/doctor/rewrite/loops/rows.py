"""Accesses that number the elements of rows one after the other, told apart by row and column."""

from __future__ import annotations

import ast
from dataclasses import replace
from typing import TYPE_CHECKING

from gradwright.doctor.rewrite.loops.expressions import names_of, number
from gradwright.doctor.rewrite.loops.flattened import Fits, is_size, unflattened
from gradwright.doctor.rewrite.loops.ir import Statement

if TYPE_CHECKING:
    from gradwright.doctor.rewrite.loops.meetings import Access, Meetings


class Rows:
    """``i * m + j`` and ``k * m + l`` are the same element only if i is k and j is l, where j and l are below m."""

    def __init__(self, meetings: Meetings) -> None:
        self.meetings = meetings
        self._known: dict[tuple[int, int], tuple[Access, tuple[str, ...]]] = {}

    def matched(self, first: tuple[Statement, Access], second: tuple[Statement, Access]) -> tuple[Access, Access]:
        """Both with ``i * m + j`` as (i, j), where both count rows of the same lengths; else as they are."""
        (one, strides), (other, lengths) = self._by_row(*first), self._by_row(*second)
        return (one, other) if strides == lengths and one.base == other.base else (first[1], second[1])

    def _by_row(self, statement: Statement, access: Access) -> tuple[Access, tuple[str, ...]]:
        key = id(statement), id(access)
        if key not in self._known:
            indices: list[ast.expr] = []
            strides: list[str] = []
            for index in access.indices:
                found = None if isinstance(index, ast.Slice) else unflattened(index, self._fits(statement))
                if found is not None and not self.meetings.exceeds(statement, found.parts[0], number(0), 0):
                    found = None
                indices += [index] if found is None else found.parts
                strides.append("" if found is None else ", ".join(map(ast.unparse, found.strides)))
            self._known[key] = (replace(access, indices=tuple(indices)) if any(strides) else access, tuple(strides))
        return self._known[key]

    def _fits(self, statement: Statement) -> Fits:
        """Whether a rest lies between 0 and a stride that is the same in every round."""
        moving = {loop.variable for loop in statement.loops} | self.meetings.changing

        def fits(rest: ast.expr, stride: ast.expr) -> bool:
            if not is_size(stride) or names_of(stride) & moving:
                return False
            below = self.meetings.exceeds(statement, stride, rest, 1)
            return below and self.meetings.exceeds(statement, rest, number(0), 0)

        return fits
