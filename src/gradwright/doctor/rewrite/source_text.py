"""One file of the user's, parsed once: where its nodes stand, and how an edit becomes a Proposal.

Edits are spliced into the text itself, so that everything that is not replaced stays as it was, byte for byte.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Sequence

import libcst as cst
from libcst.metadata import CodeRange, MetadataWrapper, ParentNodeProvider, PositionProvider

from gradwright.doctor.session.proposal import Proposal

BOM = "\ufeff"
CONTEXT_LINES = 3
_LINE = re.compile(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+")


class DeclinedError(Exception):
    """This source is not of the kind that the rewrite handles; the message says why."""


def split_lines(text: str) -> list[str]:
    """Lines with their newlines: CR, LF and CRLF end a line; form feeds and the like do not.

    >>> split_lines("a\\r\\nb\\x0cc\\nd")
    ['a\\r\\n', 'b\\x0cc\\n', 'd']
    """
    return _LINE.findall(text)


class SourceText:
    """A parsed file. Lines count from 1. Raises: ``libcst.ParserSyntaxError`` if the text is not Python."""

    def __init__(self, path: str, text: str) -> None:
        self.path = path
        self.text = text
        self._bom = BOM if text.startswith(BOM) else ""
        self.module = cst.parse_module(text.removeprefix(BOM))
        wrapper = MetadataWrapper(self.module, unsafe_skip_copy=True)
        self._positions = wrapper.resolve(PositionProvider)
        self._parents = wrapper.resolve(ParentNodeProvider)
        self.lines = split_lines(text)

    def range(self, node: cst.CSTNode) -> CodeRange:
        return self._positions[node]

    def first_line(self, node: cst.CSTNode) -> int:
        return self._positions[node].start.line

    def last_line(self, node: cst.CSTNode) -> int:
        return self._positions[node].end.line

    def parent(self, node: cst.CSTNode) -> cst.CSTNode:
        return self._parents[node]

    def parents(self, node: cst.CSTNode) -> Iterator[cst.CSTNode]:
        """From the node's parent up to the module."""
        while (parent := self._parents.get(node)) is not None:
            yield parent
            node = parent

    def code(self, node: cst.CSTNode) -> str:
        return self.module.code_for_node(node)

    def indent_of(self, line: int) -> str:
        text = self.lines[line - 1].removeprefix(BOM)
        return text[: len(text) - len(text.lstrip(" \t\x0c"))]

    def newline_of(self, line: int) -> str:
        text = self.lines[line - 1]
        return text[len(text.rstrip("\r\n")) :] or self.module.default_newline

    def functions(self) -> Iterator[cst.FunctionDef]:
        return (node for node in walk(self.module) if isinstance(node, cst.FunctionDef))

    def enclosing_class(self, node: cst.CSTNode) -> cst.ClassDef | None:
        """The class whose body holds the function directly."""
        for parent in self.parents(node):
            if isinstance(parent, cst.ClassDef):
                return parent
            if isinstance(parent, cst.FunctionDef):
                return None
        return None

    def replaced_lines(self, edits: Sequence[tuple[int, int, Sequence[str]]]) -> str:
        """The text with line ranges (first, last, new lines without newline) replaced; the ranges do not overlap."""
        lines = list(self.lines)
        for first, last, new in sorted(edits, reverse=True):
            ending = self.newline_of(first)
            fresh = [line + ending for line in new]
            if fresh and not lines[last - 1].endswith(("\r", "\n")):
                fresh[-1] = fresh[-1].removesuffix(ending)
            lines[first - 1 : last] = fresh
        return "".join(lines)

    def replaced_node(self, old: cst.CSTNode, new: cst.CSTNode) -> str:
        changed = self.module.deep_replace(old, new)
        assert isinstance(changed, cst.Module)
        return self._bom + changed.code

    def proposal(self, rewrite: str, function: cst.FunctionDef | None, new_text: str, what: str) -> Proposal:
        """``function`` is None in the module's own body.

        Raises: DeclinedError if nothing changes or the new text is not Python.
        """
        new_lines = split_lines(new_text)
        try:
            compile(new_text.removeprefix(BOM), self.path, "exec", dont_inherit=True)
        except (SyntaxError, ValueError) as error:
            raise DeclinedError(f"the new text is not Python: {error}") from error
        changed = changed_lines(self.lines, new_lines)
        if not changed:
            raise DeclinedError("nothing changes")
        owner = self.enclosing_class(function) if function else None
        last = self.last_line(function) if function else len(self.lines)
        return Proposal(
            rewrite=rewrite,
            path=self.path,
            new_text=new_text,
            diff=unified_diff(self.path, self.lines, new_lines),
            what=what,
            class_name=owner.name.value if owner else "",
            function=function.name.value if function else "",
            lines=(self.first_line(function) if function else 1, last + len(new_lines) - len(self.lines)),
            changed=changed,
        )


def walk(node: cst.CSTNode) -> Iterator[cst.CSTNode]:
    """The node and everything below it, in the order of the text."""
    yield node
    for child in node.children:
        yield from walk(child)


def unified_diff(path: str, old: Sequence[str], new: Sequence[str]) -> str:
    """Three lines of context; lines keep their own newlines, and a missing last one is told as `diff` tells it."""
    pieces = []
    for line in difflib.unified_diff(old, new, path, path, n=CONTEXT_LINES):
        pieces.append(line if line.endswith(("\n", "\r")) else line + "\n\\ No newline at end of file\n")
    return "".join(pieces)


def changed_lines(old: Sequence[str], new: Sequence[str]) -> tuple[int, ...]:
    """Numbers of the new lines."""
    blocks = difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes()
    return tuple(line + 1 for tag, _, _, first, last in blocks if tag != "equal" for line in range(first, last))
