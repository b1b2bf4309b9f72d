"""Expressions and statements that may cost more than they must, or whose derivative fails somewhere, by the text alone.

A suspicion is no finding: ``probe.expressions`` measures each on the inputs of real calls. Found here, so that the
rewrite, which has the place of a finding, takes apart the very thing that was measured.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from gradwright.doctor.session.place import Location
from gradwright.doctor.source.expressions import (
    copies,
    mask_products,
    masked_writes,
    product_summed,
    promoted,
    recomputed,
    temporaries,
)
from gradwright.doctor.source.expressions.suspect import FunctionNode, Pattern, Suspect, function_at
from gradwright.doctor.source.files import Columns
from gradwright.doctor.source.statements import Origins

__all__ = ["FunctionNode", "Pattern", "Suspect", "function_at", "suspect_at", "suspects"]

_FINDERS = (
    product_summed.find,
    recomputed.find,
    temporaries.find,
    copies.find,
    masked_writes.find,
    mask_products.find,
    promoted.find,
)


def suspects(function: FunctionNode, origins: Origins) -> Iterator[Suspect]:
    """Everything suspicious in one function, pattern by pattern. Cost: a few walks over its body."""
    for find in _FINDERS:
        yield from find(function, origins)


def suspect_at(tree: ast.Module, columns: Columns, pattern: Pattern, at: Location) -> Suspect | None:
    """The suspect of this pattern that stands exactly there; None if the text has none."""
    origins = Origins(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and node.lineno <= at.line <= (node.end_lineno or 0):
            for suspect in suspects(node, origins):
                span = columns.span(suspect.node)
                same = (span.line, span.column, span.end_line, span.end_column) == (
                    at.line,
                    at.column,
                    at.end_line,
                    at.end_column,
                )
                if suspect.pattern == pattern and same:
                    return suspect
    return None
