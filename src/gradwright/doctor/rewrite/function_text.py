"""A Function's class as text: its methods, what they keep on ctx, and lines that are changed in them."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field

from gradwright.doctor.rewrite.source_text import BOM, DeclinedError, SourceText
from gradwright.doctor.rewrite.splices import Splices
from gradwright.doctor.session.proposal import Proposal

_OTHER_READERS = frozenset({"jvp", "vjp", "vmap"})


@dataclass
class FunctionText:
    """The innermost class at a line, with a forward and a backward. Raises: DeclinedError, if there is none."""

    source: SourceText
    line: int
    splices: Splices = field(init=False)
    owner: ast.ClassDef = field(init=False)

    def __post_init__(self) -> None:
        tree = ast.parse(self.source.text.removeprefix(BOM))
        if self.source.text != self.source.text.removeprefix(BOM) or "\r" in self.source.text:
            raise DeclinedError("the file has a byte order mark, or other line ends than \\n")
        self.splices = Splices(self.source.text, tree)
        found = None
        for node in ast.walk(tree):
            first = (
                min([node.lineno, *(one.lineno for one in node.decorator_list)])
                if isinstance(node, ast.ClassDef)
                else 0
            )
            if isinstance(node, ast.ClassDef) and first <= self.line <= (node.end_lineno or 0):
                found = node
        if found is None or not {"forward", "backward"} <= set(self._methods(found)):
            raise DeclinedError("no Function stands at this line")
        self.owner = found
        if readers := _OTHER_READERS & set(self._methods(found)):
            raise DeclinedError(f"{', '.join(sorted(readers))} reads what is kept too")

    @staticmethod
    def _methods(owner: ast.ClassDef) -> dict[str, ast.FunctionDef]:
        return {node.name: node for node in owner.body if isinstance(node, ast.FunctionDef)}

    def method(self, name: str) -> ast.FunctionDef:
        return self._methods(self.owner)[name]

    @property
    def keeping(self) -> ast.FunctionDef:
        """The method that says what is kept for the backward."""
        methods = self._methods(self.owner)
        return methods.get("setup_context", methods["forward"])

    @property
    def backward(self) -> ast.FunctionDef:
        return self.method("backward")

    def ctx(self, method: ast.FunctionDef) -> str:
        """What the method calls its first parameter. Raises: DeclinedError."""
        given = [*method.args.posonlyargs, *method.args.args]
        if not given:
            raise DeclinedError(f"{method.name} takes any number of arguments")
        return given[0].arg

    def names(self, method: ast.FunctionDef) -> Collection[str]:
        """Every name that the method uses in any way, parameters too."""
        return {node.id for node in ast.walk(method) if isinstance(node, ast.Name)} | {
            node.arg for node in ast.walk(method) if isinstance(node, ast.arg)
        }

    def attributes(self, method: ast.FunctionDef, name: str = "") -> Iterator[ast.Attribute]:
        """``ctx.name`` wherever it stands in a method; of any name, if none is given."""
        ctx = self.ctx(method)
        for node in ast.walk(method):
            of_ctx = isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == ctx
            if of_ctx and (not name or node.attr == name):  # type: ignore[attr-defined]  # an attribute, as was asked
                yield node  # type: ignore[misc]  # of the kind that was asked for

    def statement_of(self, node: ast.AST) -> ast.stmt:
        above: ast.AST | None = node
        while above is not None and not isinstance(above, ast.stmt):
            above = self.splices.parent(above)
        assert above is not None
        return above

    # --- edits -------------------------------------------------------------------------------------------------------

    def indent_of(self, statement: ast.stmt) -> str:
        line = self.splices.lines[statement.lineno - 1]
        return line[: len(line) - len(line.lstrip())]

    def drop(self, statement: ast.stmt) -> None:
        """The statement's lines go. Raises: DeclinedError, where another statement shares them."""
        block = getattr(self.splices.parent(statement), "body", [])
        first, last = statement.lineno, statement.end_lineno or statement.lineno
        if any(other is not statement and first <= other.lineno <= last for other in block) or len(block) < 2:
            raise DeclinedError(f"line {first} holds more than what goes")
        self.splices.replace_span(self.splices.start_of_line(first), self.splices.start_of_line(last + 1), "")

    def before(self, statement: ast.stmt, *lines: str) -> None:
        """New lines, indented as the statement is."""
        at, indent = self.splices.start_of_line(statement.lineno), self.indent_of(statement)
        self.splices.replace_span(at, at, "".join(f"{indent}{line}\n" for line in lines))

    def first_statement(self, method: ast.FunctionDef) -> ast.stmt:
        """Of the body, after a docstring. Raises: DeclinedError, where it stands on the line of the ``def``."""
        head, *rest = method.body
        docstring = (
            isinstance(head, ast.Expr) and isinstance(head.value, ast.Constant) and isinstance(head.value.value, str)
        )
        first = rest[0] if docstring and rest else head
        if first.lineno == method.lineno:
            raise DeclinedError(f"{method.name} stands on one line")
        return first

    def proposal(self, rewrite: str, what: str, *, whole: bool = False) -> Proposal:
        """What was edited, as a change of the backward (``whole``: of the class). Raises: DeclinedError."""
        new_text = self.splices.rendered(0, len(self.source.text))
        backward = next(
            node for node in self.source.functions()
            if node.name.value == "backward"
            and (owner := self.source.enclosing_class(node)) is not None
            and self.source.first_line(owner) <= self.backward.lineno <= self.source.last_line(owner)
        )  # fmt: skip
        return self.source.proposal(rewrite, backward, new_text, what)
