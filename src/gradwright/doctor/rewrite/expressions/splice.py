"""Nodes of Python's own syntax tree replaced in the text of a file; all the rest stays as it was, byte for byte."""

from __future__ import annotations

import ast
import itertools
from collections.abc import Sequence
from dataclasses import replace

import libcst as cst

from gradwright.doctor.rewrite.source_text import BOM, DeclinedError, SourceText, split_lines
from gradwright.doctor.session.model import Finding
from gradwright.doctor.session.proposal import Proposal
from gradwright.doctor.source.expressions import FunctionNode, Pattern, Suspect, suspect_at
from gradwright.doctor.source.files import Columns
from gradwright.doctor.source.names import events, locals_of
from gradwright.doctor.source.statements import Origins

_ATOMS = (ast.Name, ast.Attribute, ast.Call, ast.Subscript, ast.Constant, ast.Tuple, ast.List)
_FACTORS = (*_ATOMS, ast.UnaryOp)


class Splice:
    """A file's text and tree. Raises: DeclinedError if the text is not Python."""

    def __init__(self, source: SourceText) -> None:
        self.source = source
        self.text = source.text.removeprefix(BOM)
        self._bom = source.text[: len(source.text) - len(self.text)]
        try:
            self.tree = ast.parse(self.text)
        except (SyntaxError, ValueError, RecursionError) as error:
            raise DeclinedError(f"its file is not read: {error}") from error
        self.origins = Origins(self.tree)
        self._lines = split_lines(self.text)
        self._starts = [0, *itertools.accumulate(map(len, self._lines))]

    def suspect(self, pattern: Pattern, finding: Finding) -> Suspect:
        """What the finding points at. Raises: DeclinedError if the text has changed since."""
        lines = Columns("".join(line.rstrip("\r\n") + "\n" for line in self._lines))
        found = suspect_at(self.tree, lines, pattern, finding.location)
        if found is None:
            raise DeclinedError("the text is not what was measured")
        return found

    def offset(self, line: int, column: int) -> int:
        """Where a place of Python's (columns in UTF-8 bytes) is in the text."""
        text = self._lines[line - 1]
        return self._starts[line - 1] + len(text.encode()[:column].decode(errors="replace"))

    def line(self, number: int) -> str:
        return self._lines[number - 1]

    def span(self, node: ast.AST) -> tuple[int, int]:
        first = self.offset(node.lineno, node.col_offset)  # type: ignore[attr-defined]  # expressions have them
        return first, self.offset(node.end_lineno, node.end_col_offset)  # type: ignore[attr-defined]  # the same

    def code(self, node: ast.AST) -> str:
        """The node as it is written. Raises: DeclinedError if a comment stands inside, which would be lost."""
        first, last = self.span(node)
        code = self.text[first:last]
        if "\n" in code and "#" in code:
            raise DeclinedError("a comment stands inside the expression")
        return code

    def closed(self, node: ast.expr) -> str:
        """As the receiver of a method or the operand of anything: in parentheses where it needs them."""
        return self.code(node) if isinstance(node, _ATOMS) and not _is_bare_number(node) else f"({self.code(node)})"

    def factor(self, node: ast.expr) -> str:
        """As a factor of a product."""
        return self.code(node) if isinstance(node, _FACTORS) else f"({self.code(node)})"

    def with_own_parentheses(self, node: ast.expr) -> tuple[int, int]:
        """The span of an expression with the parentheses right around it, if it has any."""
        first, last = self.span(node)
        before, after = self.text[:first].rstrip(" \t"), self.text[last:].lstrip(" \t")
        called = before[-2:-1]  # `f(x)`: the call's own; `return (x)` has a blank there
        if before.endswith("(") and after.startswith(")") and not (called.isalnum() or called in set("_])\"'")):
            return len(before) - 1, len(self.text) - len(after) + 1
        return first, last

    def replaced(self, edits: Sequence[tuple[tuple[int, int], str]]) -> str:
        """The text with spans replaced, which do not overlap."""
        text = self.text
        for (first, last), new in sorted(edits, reverse=True):
            text = text[:first] + new + text[last:]
        return self._bom + text

    def line_span(self, statement: ast.stmt) -> tuple[int, int]:
        """The whole lines of a statement. Raises: DeclinedError if it shares them with another one."""
        first, last = self._starts[statement.lineno - 1], self._starts[statement.end_lineno or statement.lineno]
        start, end = self.span(statement)
        rest = self.text[end:last].strip()
        if self.text[first:start].strip() or rest:
            raise DeclinedError("a statement or a comment shares its line")
        return first, last

    def indent(self, statement: ast.stmt) -> str:
        return self.text[self.line_span(statement)[0] : self.span(statement)[0]]

    def newline(self, statement: ast.stmt) -> str:
        return self.source.newline_of(statement.lineno)

    def torch(self, function: FunctionNode | None) -> str:
        """The name under which the function (None: the module's body) sees torch. Raises: DeclinedError if it sees it
        under none."""
        bound = (one.name for one in events(self.tree.body, into_functions=False) if one.kind == "bind")
        mine = locals_of(function) if function is not None else set()
        hidden = mine | {name for name in bound if self.origins.names.get(name) != "torch"}
        imported = [one for one in self.tree.body if isinstance(one, ast.Import)]
        for alias in (alias for statement in imported for alias in statement.names):
            name = alias.asname or alias.name.split(".")[0]
            if self.origins.names.get(name) == "torch" and name not in hidden:
                return name
        raise DeclinedError("the file does not import torch by name")

    def fresh_name(self, wanted: str) -> str:
        """A name that the file does not use yet."""
        used = {node.id for node in ast.walk(self.tree) if isinstance(node, ast.Name)}
        used |= {node.arg for node in ast.walk(self.tree) if isinstance(node, ast.arg)} | set(self.origins.names)
        others = (f"{wanted}_{turn}" for turn in itertools.count(2))
        return next(name for name in itertools.chain([wanted], others) if name not in used)

    def proposal(self, rewrite: str, function: FunctionNode, new_text: str, what: str, *, unsafe: str = "") -> Proposal:
        """Raises: DeclinedError if nothing changes, or the function is not found in the other parser's tree."""
        holder = next((node for node in self.source.functions() if self._is(node, function)), None)
        if holder is None:
            raise DeclinedError("the function is not found")
        return replace(self.source.proposal(rewrite, holder, new_text, what), unsafe=unsafe)

    def _is(self, node: cst.FunctionDef, function: FunctionNode) -> bool:
        return node.name.value == function.name and self.source.range(node.name).start.line == function.lineno


def _is_bare_number(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, int | float)
