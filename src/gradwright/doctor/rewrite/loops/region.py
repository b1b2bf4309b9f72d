"""Where a loop stands in the text, and the statements around it that a rewrite may use."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass

from gradwright.doctor.rewrite.source_text import BOM, DeclinedError
from gradwright.doctor.source.loops import LoopSite
from gradwright.doctor.source.statements import blocks

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True, eq=False)
class Region:
    """``node``: the loop, or the statement that holds comprehensions; ``tail``: what follows and belongs to it;
    ``before``: what stands above it in its block; ``function``: the innermost one around, None in a script's own body.
    """

    node: ast.stmt
    tail: tuple[ast.stmt, ...]
    before: tuple[ast.stmt, ...]
    function: FunctionNode | None


def region_of(text: str, site: LoopSite) -> Region:
    """Raises: DeclinedError, if there is no such loop in the text (any more)."""
    lines = text.removeprefix(BOM).splitlines()
    column = len(lines[site.line - 1][: site.column - 1].encode()) if site.line <= len(lines) else 0
    found = _find(ast.parse(text.removeprefix(BOM)).body, None, (site.line, column))
    if found is None:
        raise DeclinedError("the loop is not where it was")
    block, position, function = found
    tail = tuple(block[position + 1 : position + 1 + site.tail])
    return Region(block[position], tail, tuple(block[:position]), function)


def _find(
    block: list[ast.stmt], function: FunctionNode | None, wanted: tuple[int, int]
) -> tuple[Sequence[ast.stmt], int, FunctionNode | None] | None:
    for position, statement in enumerate(block):
        if (statement.lineno, statement.col_offset) == wanted:
            return block, position, function
        if not statement.lineno <= wanted[0] <= (statement.end_lineno or 0):
            continue
        inside = statement if isinstance(statement, FunctionNode) else function
        for inner in blocks(statement):
            found = _find(inner, inside, wanted)
            if found is not None:
                return found
    return None
