"""Chains of elementwise operations in what a loop became, as formulas, with the names put in that only they read."""

from __future__ import annotations

import ast
import copy
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Literal

from gradwright.doctor.rewrite.loops.frames import Frame
from gradwright.doctor.rewrite.source_text import BOM
from gradwright.doctor.source.expressions.formulas import Formula, read_formula
from gradwright.doctor.source.expressions.suspect import integer
from gradwright.doctor.source.liveness import block_of, read_after
from gradwright.doctor.source.statements import Origins

Reduction = Literal["none", "sum", "mean"]


@dataclass(frozen=True, eq=False)
class Chain:
    """``formula``, reduced, is what ``node`` of ``statement`` gives; without it nobody needs the ``needless`` ones.

    ``last``: the line that the region ends with.
    """

    formula: Formula
    reduction: Reduction
    node: ast.expr
    statement: ast.stmt
    needless: tuple[ast.stmt, ...]
    last: int


class Passage:
    """The statements on ``lines`` of a file's text. Raises: LookupError, if none begins there."""

    def __init__(self, text: str, lines: tuple[int, int]) -> None:
        first, last = lines
        self.tree = ast.parse(text.removeprefix(BOM))
        self.block, _ = block_of(self.tree, first)
        self.statements = [one for one in self.block if first <= one.lineno and (one.end_lineno or 0) <= last]
        if not self.statements:
            raise LookupError(f"no whole statement on lines {first} to {last}")
        self.last = last
        self.frame = Frame(self.tree, self.statements[0])
        self.origins = Origins(self.tree)

    def chains(self, least: int) -> Iterator[Chain]:
        """Those of at least so many operations, last ones first."""
        for statement in reversed(self.statements):
            for whole, inner, reduction in _ends(statement):
                names = self._only_read_in(statement, whole)
                formula = read_formula(self._plain(inner, names), self.origins, least, slices=True)
                if formula is not None:
                    needless = tuple(names.values())
                    yield Chain(formula, reduction, whole, statement, needless, self.last)

    def averaged(self, chain: Chain, lines: Collection[str]) -> Chain:
        """The chain as a mean, if its sum is divided by the number of elements of an input, right there or after it.

        ``lines``: the inputs of one axis.
        """
        if chain.reduction != "sum":
            return chain
        counter = _Counting(self.frame, chain, lines)
        for node in ast.walk(chain.statement):
            if isinstance(node, ast.BinOp) and node.left is chain.node and counter.divides(node, chain.statement):
                return replace(chain, reduction="mean", node=node)
        after = next((one for one in self.block if one.lineno == self.last + 1), None)
        value = getattr(after, "value", None)
        if not isinstance(after, ast.Assign | ast.Return) or not isinstance(value, ast.BinOp):
            return chain
        name = _named(chain.statement)
        last = chain.statement is self.statements[-1] and _value(chain.statement) is chain.node
        if not last or not isinstance(value.left, ast.Name) or value.left.id != name:
            return chain
        read_again = name in read_after(self.tree, after.lineno, after.end_lineno or 0)
        if read_again or after.end_lineno != after.lineno or not counter.divides(value, after):
            return chain
        needless = (*chain.needless, chain.statement)
        return replace(chain, reduction="mean", node=value, statement=after, needless=needless, last=after.lineno)

    def _only_read_in(self, statement: ast.stmt, node: ast.expr) -> dict[str, ast.stmt]:
        """Names that statements above give, once, and that only the node reads, or another of them.

        What such a statement reads is the same until the node: no statement from there on gives it another value.
        """
        mine = self.statements[: self.statements.index(statement)]
        if not all(_named(one) for one in mine):
            return {}  # what they write into may be what a name stands for
        given = [_named(one) for one in self.statements]
        found = {
            _named(one): one
            for position, one in enumerate(mine)
            if given.count(_named(one)) == 1 and not _reads(one).keys() & {*given[position : len(mine)]}
        }
        later = read_after(self.tree, self.statements[0].lineno, self.last)
        while True:
            readers = {name: [one for one in self.statements if name in _reads(one)] for name in found}
            kept = {
                name: one
                for name, one in found.items()
                if name not in later
                and all(
                    reader in found.values() or (reader is statement and _reads(node)[name] == _reads(reader)[name])
                    for reader in readers[name]
                )
            }
            if kept == found:
                return found
            found = kept

    def _plain(self, node: ast.expr, names: Mapping[str, ast.stmt]) -> ast.expr:
        """The node with the names put in, and torch's ``abs`` for Python's."""
        passage = self

        class Plain(ast.NodeTransformer):
            def visit_Name(self, inner: ast.Name) -> ast.expr:  # ast's own name for it
                given = _value(names[inner.id]) if inner.id in names else None
                return passage._plain(given, names) if given is not None else inner

            def visit_Call(self, inner: ast.Call) -> ast.expr:  # ast's own name for it
                if passage.frame.module_of(inner.func) == "builtins.abs" and (torch := passage.frame.torch_name()):
                    function: ast.expr = ast.Attribute(ast.Name(torch, ast.Load()), "abs", ast.Load())
                    return ast.Call(function, [self.visit(one) for one in inner.args], inner.keywords)
                self.generic_visit(inner)
                return inner

        plain = Plain().visit(copy.deepcopy(node))
        assert isinstance(plain, ast.expr)
        return plain


@dataclass(frozen=True)
class _Counting:
    """Which numbers are that of the elements of an input."""

    frame: Frame
    chain: Chain
    lines: Collection[str]

    def divides(self, division: ast.BinOp, at: ast.stmt) -> bool:
        return isinstance(division.op, ast.Div) and self.counts(division.right, at)

    def counts(self, node: ast.expr, at: ast.stmt) -> bool:
        """``x.numel()`` of an input ``x``, ``len(x)`` and ``x.shape[0]`` of one with one axis; a name for these."""
        if isinstance(node, ast.Name):
            found = self.frame.reaching(node.id, at)
            value = found.value if found is not None and found.item is None else None
            return value is not None and not isinstance(value, ast.Name) and self.counts(value, at)
        if isinstance(node, ast.Call) and not node.keywords:
            method = node.func if isinstance(node.func, ast.Attribute) else None
            if method is not None and method.attr == "numel" and not node.args:
                return self._is_input(method.value)
            first = node.args[0] if len(node.args) == 1 else None
            is_len = first is not None and self.frame.module_of(node.func) == "builtins.len"
            return is_len and self._is_line(first)
        shape = node.value if isinstance(node, ast.Subscript) and integer(node.slice) == 0 else None
        return isinstance(shape, ast.Attribute) and shape.attr == "shape" and self._is_line(shape.value)

    def _is_line(self, node: ast.expr | None) -> bool:
        return self._is_input(node) and isinstance(node, ast.Name) and node.id in self.lines

    def _is_input(self, node: ast.expr | None) -> bool:
        """Whether it is one, and the same everywhere in the function."""
        inputs = {one.id for _, one in self.chain.formula.inputs if isinstance(one, ast.Name)}
        return isinstance(node, ast.Name) and node.id in inputs and len(self.frame.bindings[node.id]) == 1


def _ends(statement: ast.stmt) -> Iterator[tuple[ast.expr, ast.expr, Reduction]]:
    """Where a chain may end: what is reduced, whole or over some axes; then the value of the statement."""
    value = _value(statement)
    if value is None:
        return
    for node in ast.walk(value):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in ("sum", "mean"):
            inner = node.func.value
            if node.args or node.keywords:
                yield inner, inner, "none"
            else:
                yield node, inner, "sum" if node.func.attr == "sum" else "mean"
    yield value, value, "none"


def _value(statement: ast.stmt) -> ast.expr | None:
    return statement.value if isinstance(statement, ast.Assign | ast.AugAssign | ast.Return) else None


def _named(statement: ast.stmt) -> str:
    """The one name that a statement gives a value, and does nothing else; "" of any other statement."""
    target = statement.targets[0] if isinstance(statement, ast.Assign) and len(statement.targets) == 1 else None
    return target.id if isinstance(target, ast.Name) and not _writes(statement) else ""


def _writes(statement: ast.stmt) -> bool:
    """Whether it does something to a tensor in place, or binds a name on the way."""
    return any(
        isinstance(node, ast.NamedExpr) or (isinstance(node, ast.Attribute) and node.attr.endswith("_"))
        for node in ast.walk(statement)
    )


def _reads(node: ast.AST) -> Counter[str]:
    return Counter(one.id for one in ast.walk(node) if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Load))
