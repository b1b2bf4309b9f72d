"""Which loops stand around a line: the nest, outermost first, within one function."""

from __future__ import annotations

import ast
import functools
from dataclasses import dataclass

from gradwright.doctor.source.files import Columns

_LOOPS = (ast.For, ast.AsyncFor, ast.While, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)


@dataclass(frozen=True, slots=True)
class LoopSpan:
    """A loop statement or comprehension. Lines and columns count from 1, columns in characters.

    ``body_line``: the first line of its body, which runs once per iteration. ``text``: its source.
    """

    line: int
    column: int
    end_line: int
    end_column: int
    body_line: int
    text: str

    def holds(self, line: int) -> bool:
        return self.line <= line <= self.end_line


@functools.lru_cache(maxsize=64)
def loops_of(text: str) -> tuple[LoopSpan, ...]:
    """Every loop of a file, in order of appearance; none if it does not parse.

    >>> [(loop.line, loop.body_line) for loop in loops_of("for i in x:\\n    for j in i:\\n        f(j)\\n")]
    [(1, 2), (2, 3)]
    """
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError):
        return ()
    columns = Columns(text)
    found = [_span(node, columns, text) for node in ast.walk(tree) if isinstance(node, _LOOPS)]
    return tuple(sorted(found, key=lambda loop: (loop.line, loop.column)))


def loops_around(text: str, line: int, first_line: int) -> tuple[LoopSpan, ...]:
    """The loops that hold ``line``, outermost first, in the function whose code starts at ``first_line``."""
    return tuple(loop for loop in loops_of(text) if loop.holds(line) and loop.line >= first_line)


def _span(node: ast.AST, columns: Columns, text: str) -> LoopSpan:
    span = columns.span(node)
    body = getattr(node, "body", None)
    first_line: int = body[0].lineno if isinstance(body, list) else node.lineno  # type: ignore[attr-defined]  # loops have positions
    return LoopSpan(
        line=span.line,
        column=span.column,
        end_line=span.end_line,
        end_column=span.end_column,
        body_line=first_line,
        text=ast.get_source_segment(text, node) or "",
    )
