"""The operation that is to be written otherwise, in its file: what stands around it, and how a change becomes text."""

from __future__ import annotations

import ast
import contextlib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from gradwright.doctor.rewrite.expressions.splice import Splice
from gradwright.doctor.rewrite.finite.bindings import Bindings
from gradwright.doctor.rewrite.finite.operations import Operation, operation_of
from gradwright.doctor.rewrite.source_text import DeclinedError
from gradwright.doctor.session.facts import NonfiniteBegins
from gradwright.doctor.session.place import Location
from gradwright.doctor.session.proposal import Proposal, Twin
from gradwright.doctor.source.expressions.leaves import UnfitError, leaves, may_do_anything
from gradwright.doctor.source.files import Columns
from gradwright.doctor.source.statements import last_import_line
from gradwright.ground.syntax import dotted_names

REWRITE = "keep_finite"
_SIMPLE = ast.Assign | ast.AugAssign | ast.AnnAssign | ast.Return | ast.Expr
_PART_TIME = (
    ast.IfExp, ast.BoolOp, ast.Lambda, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp, ast.Assert,
)  # fmt: skip


@dataclass(frozen=True)
class Change:
    """``new`` in the place of ``node``. ``before`` and ``after``: what is compared, of the same values where the former
    was finite; the node and ``new`` themselves where they are empty. ``bound``: a name given to a part of it by a line
    in front of the statement. ``dropped``: a statement that nobody needs any more. ``unused``, ``opened``: as in a
    ``Twin``."""

    node: ast.expr
    new: str
    what: str
    before: str = ""
    after: str = ""
    bound: tuple[str, str] | None = None
    dropped: ast.stmt | None = None
    unused: bool = False
    opened: bool = False


class Place:
    """Raises: DeclinedError if the operation is not found."""

    def __init__(self, splice: Splice, at: Location, fact: NonfiniteBegins) -> None:
        self.splice, self.fact = splice, fact
        self._parents = {child: node for node in ast.walk(splice.tree) for child in ast.iter_child_nodes(node)}
        self.node: ast.expr | ast.AugAssign = self._node_at(at)
        statement: ast.AST = self.node
        while not isinstance(statement, ast.stmt):
            statement = self._parents[statement]
        self.statement: ast.stmt = statement
        around = self.around(self.statement)
        self.function = next((one for one in around if isinstance(one, ast.FunctionDef)), None)
        self._bindings = Bindings(self.function or splice.tree, self._parents)
        self._imports = False
        self.until = self.statement.lineno  # where the new text will stand
        self.opened = False  # whether a name was seen through

    def _node_at(self, at: Location) -> ast.expr | ast.AugAssign:
        columns = Columns(self.splice.text.replace("\r\n", "\n"))
        wanted = (at.line, at.column, at.end_line, at.end_column)
        for node in ast.walk(self.splice.tree):
            if isinstance(node, ast.BinOp | ast.Call | ast.AugAssign) and node.lineno == at.line:
                span = columns.span(node)
                if (span.line, span.column, span.end_line, span.end_column) == wanted:
                    return node
        raise DeclinedError("its text is no operation that could be written otherwise")

    # --- reading -----------------------------------------------------------------------------------------------------

    @property
    def expression(self) -> ast.expr:
        """Raises: DeclinedError where it is a statement (``x /= y``)."""
        if isinstance(self.node, ast.AugAssign):
            raise DeclinedError("it is computed in place")
        return self.node

    def around(self, node: ast.AST) -> Iterable[ast.AST]:
        while (above := self._parents.get(node)) is not None:
            yield above
            node = above

    def parent(self, node: ast.AST) -> ast.AST:
        return self._parents[node]

    def operation(self, node: ast.AST) -> Operation | None:
        return operation_of(node, self.splice.origins)

    def code(self, node: ast.AST) -> str:
        """As it is written, in one line where no text within could be harmed."""
        return _in_one_line(self.splice.code(node))

    def value_of(self, node: ast.expr) -> ast.expr:
        """The node itself; of a name that the function (or the script's body) assigns once, what is assigned."""
        found = self.assignment_of(node)
        if found is None:
            return node
        self.opened = True
        return found.value

    def assignment_of(self, node: ast.expr) -> ast.Assign | None:
        return self._bindings.assignment_of(node, self.until)

    def uses(self, name: str) -> list[ast.Name]:
        return self._bindings.uses(name)

    # --- writing -----------------------------------------------------------------------------------------------------

    @property
    def torch(self) -> str:
        """The name of torch here; where the file has none, it will be imported."""
        try:
            return self.splice.torch(self.function)
        except DeclinedError:
            if any(isinstance(one, ast.Name) and one.id == "torch" for one in ast.walk(self.splice.tree)):
                raise
            self._imports = True
            return "torch"

    @property
    def functional(self) -> str:
        for name, meant in self.splice.origins.names.items():
            if meant == "torch.nn.functional":
                return name
        return f"{self.torch}.nn.functional"

    def twice(self, node: ast.expr, wanted: str) -> tuple[str, tuple[str, str] | None]:
        """A text for the node that may stand in several places, and the line in front that this takes, if any.

        Raises: DeclinedError where there is no place for that line.
        """
        if dotted_names(node):
            return self.code(node), None
        within = [one for one in self.around(node) if not isinstance(one, ast.stmt)]
        if not isinstance(self.statement, _SIMPLE) or any(isinstance(one, _PART_TIME) for one in within):
            raise DeclinedError("the operand has no name, and no place where it could be given one")
        self._line_of_statement()
        name = self.splice.fresh_name(wanted)
        code = self.code(node)
        return name, (name, f"({code})" if "\n" in code else code)

    def with_parts(self, node: ast.AST, parts: Sequence[tuple[ast.expr, str]]) -> str:
        """The node's text with some of its parts written otherwise."""
        first = self.splice.span(node)[0]
        code = self.splice.code(node)
        for part, new in sorted(parts, key=lambda one: self.splice.span(one[0]), reverse=True):
            start, end = self.splice.with_own_parentheses(part)
            code = code[: start - first] + new + code[end - first :]
        return _in_one_line(code)

    def proposal(self, change: Change) -> Proposal:
        """Raises: DeclinedError if nothing changes, or what may do anything would be done more often than before."""
        splice = self.splice
        before = change.before or self.code(change.node)
        after = change.after or change.new
        self._require_no_more_often(before, change)
        span = splice.span(change.node)
        if isinstance(change.node, ast.BinOp) and isinstance(ast.parse(f"({change.new})").body[0].value, ast.Call):  # type: ignore[attr-defined]  # an expression
            span = splice.with_own_parentheses(change.node)
        edits = [(span, change.new)]
        if change.bound is not None:
            name, code = change.bound
            start, indent = self._line_of_statement()
            edits.append(((start, start), f"{indent}{name} = {code}{self._newline()}"))
        if change.dropped is not None:
            with contextlib.suppress(DeclinedError):  # a comment stands beside it
                edits.append((splice.line_span(change.dropped), ""))
        if self._imports:
            last = last_import_line(splice.tree)
            start = splice.offset(last + 1, 0) if last else 0
            edits.append(((start, start), f"import torch{self._newline()}"))
        text = splice.replaced(edits)
        shift = sum(len(new) - (end - start) for (start, end), new in edits if end <= span[0] and (start, end) != span)
        begins = span[0] + shift + (len(splice.source.text) - len(splice.text))
        if self.function is not None:
            found = splice.proposal(REWRITE, self.function, text, change.what)
        else:
            found = splice.source.proposal(REWRITE, None, text, change.what)
        span = (begins, begins + len(change.new))
        return replace(found, twin=Twin(span, before, after, change.unused, change.opened))

    def enclosed(self, node: ast.expr, text: str) -> str:
        """A quotient in the place of a call: in parentheses where something binds it tighter."""
        tight = ast.BinOp | ast.UnaryOp | ast.Attribute | ast.Subscript | ast.Compare
        return f"({text})" if isinstance(self.parent(node), tight) else text

    def _line_of_statement(self) -> tuple[int, str]:
        """Where its line begins, and the blanks before it. Raises: DeclinedError if another statement stands there."""
        first, start = self.splice.offset(self.statement.lineno, 0), self.splice.span(self.statement)[0]
        indent = self.splice.text[first:start]
        if indent.strip():
            raise DeclinedError("another statement shares its line")
        return first, indent

    def _newline(self) -> str:
        return self.splice.newline(self.statement)

    def _require_no_more_often(self, before: str, change: Change) -> None:
        try:
            was = _impure(before, self)
            now = _impure(change.new, self) + (_impure(change.bound[1], self) if change.bound is not None else [])
        except UnfitError as error:
            raise DeclinedError(str(error)) from None
        if change.before:  # seen through names: none of it is computed again
            was = _impure(self.code(change.node), self)
        if any(now.count(one) > was.count(one) for one in now):
            raise DeclinedError("a call that may do anything would be made more often than before")


def _in_one_line(code: str) -> str:
    if "\n" not in code or '"' in code or "'" in code:
        return code
    joined = " ".join(line.strip() for line in code.split("\n"))
    return re.sub(r",? ([)\]])", r"\1", re.sub(r"([(\[]) ", r"\1", joined))


def _impure(text: str, place: Place) -> list[str]:
    tree = ast.parse(f"({text})", mode="eval").body
    return [ast.dump(one) for one in leaves(tree, place.splice.origins) if may_do_anything(one)]
