"""Edits of a text at places that Python's syntax tree tells: replaced spans and insertions, applied at once."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field

_ATOMS = (ast.Name, ast.Call, ast.Attribute, ast.Subscript, ast.Constant, ast.List, ast.Tuple)
# Where parentheses around an operand are its own, and not those of a call.
_OPERATORS = (ast.BinOp, ast.UnaryOp, ast.Compare, ast.Assign, ast.AugAssign, ast.Attribute, ast.Subscript)


@dataclass
class Splices:
    """Positions are offsets in characters. Of several insertions at one place, the earliest made stands first."""

    text: str
    tree: ast.Module
    edits: list[tuple[int, int, str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.lines = self.text.split("\n")
        self._starts = [0]
        for line in self.lines:
            self._starts.append(self._starts[-1] + len(line) + 1)
        self._parents = {child: parent for parent in ast.walk(self.tree) for child in ast.iter_child_nodes(parent)}

    def parent(self, node: ast.AST) -> ast.AST | None:
        return self._parents.get(node)

    def fresh(self) -> Splices:
        """The same text without an edit."""
        return Splices(self.text, self.tree)

    def start_of_line(self, line: int) -> int:
        return self._starts[line - 1]

    def span(self, node: ast.AST) -> tuple[int, int]:
        """Of an expression or a statement."""
        first = self._offset(node.lineno, node.col_offset)  # type: ignore[attr-defined]  # expressions, statements
        return first, self._offset(node.end_lineno, node.end_col_offset)  # type: ignore[attr-defined]  # parsed nodes have an end

    def _offset(self, line: int, column: int) -> int:
        text = self.lines[line - 1]
        return self._starts[line - 1] + (column if text.isascii() else len(text.encode()[:column].decode()))

    def of(self, node: ast.AST) -> str:
        start, end = self.span(node)
        return self.text[start:end]

    def text_of_arguments(self, call: ast.Call) -> str:
        return ", ".join(self.of(argument) for argument in (*call.args, *(keyword.value for keyword in call.keywords)))

    def replace(self, node: ast.AST, new: str) -> None:
        self.edits.append((*self.span(node), new))

    def replace_span(self, start: int, end: int, new: str) -> None:
        self.edits.append((start, end, new))

    def append(self, node: ast.expr, suffix: str) -> None:
        """``suffix`` behind an operand, which gets parentheses if it needs any."""
        start, end = self.span(node)
        if isinstance(node, _ATOMS):
            self.edits.append((end, end, suffix))
        elif (closing := self._own_parenthesis(node, start, end)) is not None:
            self.edits.append((closing, closing, suffix))
        else:
            self.edits += [(start, start, "("), (end, end, ")" + suffix)]

    def _own_parenthesis(self, node: ast.expr, start: int, end: int) -> int | None:
        before, after = self.text[:start].rstrip(), self.text[end:].lstrip()
        if isinstance(self.parent(node), _OPERATORS) and before.endswith("(") and after.startswith(")"):
            return len(self.text) - len(after) + 1
        return None

    def rendered(self, start: int, end: int) -> str:
        """The text from ``start`` to ``end`` with the edits that lie in it."""
        pieces, at = [], start
        inside = [edit for edit in self.edits if start <= edit[0] and edit[1] <= end]
        for first, last, new in sorted(inside, key=lambda edit: (edit[0], edit[1] > edit[0])):
            pieces += [self.text[at:first], new]
            at = max(at, last)
        return "".join([*pieces, self.text[at:end]])


def needs_parentheses(node: ast.expr) -> bool:
    return not isinstance(node, _ATOMS)
