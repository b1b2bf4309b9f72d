"""Branches and loops: what a name stands for where ways meet, and over what a loop of the kernel runs."""

from __future__ import annotations

import ast
from abc import abstractmethod
from collections.abc import Callable, Sequence

from gradwright.doctor.rewrite.kernels.expressions import Expressions
from gradwright.doctor.rewrite.kernels.joining import joined
from gradwright.doctor.rewrite.kernels.rows import subscript
from gradwright.doctor.rewrite.kernels.values import (
    Row,
    Scalar,
    Value,
    code,
)
from gradwright.doctor.rewrite.kernels.writer import Writer
from gradwright.doctor.rewrite.loops.nodes import name
from gradwright.doctor.rewrite.source_text import DeclinedError

MOST_PASSES = 5
Header = tuple[tuple[str, ast.expr], Callable[[], None]]


class Control:
    """``loops``: those around the statement that is being translated. ``ended``: what names were at the end of the last
    loop's body; ``exits``: what they were where the present one is left, or its round cut short."""

    it: Expressions
    writer: Writer
    loops: list[ast.stmt]
    ended: tuple[dict[str, Value], set[str]]
    exits: list[tuple[dict[str, Value], set[str]]]

    @abstractmethod
    def all(self, statements: Sequence[ast.stmt]) -> None: ...

    @abstractmethod
    def assign(self, target: ast.expr, value: Value, source: ast.expr | None = None) -> None: ...

    def trips(self, loop: ast.For | ast.While) -> ast.expr | None:
        """How often the loop runs, as far as that is known before it."""
        if isinstance(loop, ast.While):
            return None
        with self.writer.block():
            (_, over), _ = self._header(loop.target, loop.iter)
        assert isinstance(over, ast.Call)
        if len(over.args) == 1 and isinstance(over.args[0], ast.Subscript):
            return over.args[0]  # x.shape[0]
        if len(over.args) == 1:
            return code("max(n, 0)", n=over.args[0])
        return code("len(over)", over=over)

    def _if(self, node: ast.If) -> None:
        test = self.it.test(node.test)
        before, unsure = dict(self.it.values), set(self.it.unsure)
        blocks = []
        ends = []
        for body in (node.body, node.orelse):
            self.it.values, self.it.unsure = dict(before), set(unsure)
            with self.writer.block() as block:
                self.all(body)
            blocks.append(block)
            if not (body and isinstance(body[-1], ast.Break | ast.Continue)):
                ends.append((self.it.values, self.it.unsure))
        if ends:
            self.it.values, self.it.unsure = ends[0]
            for values, more in ends[1:]:
                self.it.values, self.it.unsure = joined(
                    self.it.values, values, self.it.unsure | more, self.writer.sizes
                )
        self.writer.put(ast.If(test, blocks[0] or [ast.Pass()], blocks[1]))

    def _for(self, node: ast.For) -> None:
        if node.orelse:
            raise DeclinedError("a loop has an else")
        header, first = self._header(node.target, node.iter)
        body = self._repeated(node, node.body, first)
        over = ast.parse(f"for {header[0]} in _: pass").body[0]
        assert isinstance(over, ast.For)
        over.iter, over.body = header[1], body
        self.writer.put(over)

    def _while(self, node: ast.While) -> None:
        if node.orelse:
            raise DeclinedError("a loop has an else")
        tests: list[ast.expr] = []

        def first() -> None:
            with self.writer.block() as before:
                test = self.it.test(node.test)
            tests[:] = [code("True") if before else test]
            for statement in before:
                self.writer.put(statement)
            if before:
                with self.writer.when(code("not t", t=test)):
                    self.writer.put(ast.Break())

        body = self._repeated(node, node.body, first)
        self.writer.put(ast.While(tests[0], body, []))

    def _repeated(
        self, node: ast.For | ast.While, statements: Sequence[ast.stmt], first: Callable[[], None]
    ) -> list[ast.stmt]:
        """The body, once what its names are at its beginning is what they are at its end."""
        start, unsure, used = dict(self.it.values), set(self.it.unsure), set(self.writer.used)
        self.loops.append(node)
        around = self.exits
        for _ in range(MOST_PASSES):
            self.exits = []
            self.it.values, self.it.unsure = dict(start), set(unsure)
            self.writer.used = set(used)
            with self.writer.block() as block:
                first()
                self.all(statements)
            end, more = joined(start, self.it.values, self.it.unsure | unsure, self.writer.sizes)
            for values, left in self.exits:
                end, more = joined(end, values, more | left, self.writer.sizes)
            again = {one: end[one] for one in start}
            if all(start[one].kind == again[one].kind and _reads(start[one]) == _reads(again[one]) for one in start):
                break
            start = again
        else:
            raise DeclinedError("what its names stand for changes from round to round")
        self.loops.pop()
        self.exits = around
        self.ended = self.it.values, self.it.unsure
        self.it.values, self.it.unsure = end, more
        return block or [ast.Pass()]

    def _header(self, target: ast.expr, over: ast.expr) -> Header:
        """What a ``for`` of the kernel runs with and over, and what it does first in every round."""
        if isinstance(over, ast.Call) and not over.keywords:
            function = self.it.dotted(over.func)
            if function == "reversed" and len(over.args) == 1 and isinstance(target, ast.Name):
                inside = over.args[0]
                if isinstance(inside, ast.Call) and self.it.dotted(inside.func) == "range":
                    (variable, ranged), first = self._header(target, inside)
                    assert isinstance(ranged, ast.Call)
                    return (variable, _reversed(ranged)), first
            if function == "range" and isinstance(target, ast.Name):
                ends = [self.it.integer(one) for one in over.args]
                return (self.it.called(target.id), ast.Call(name("range"), ends, [])), self._counts(target.id)
            if (
                function == "enumerate"
                and len(over.args) == 1
                and isinstance(target, ast.Tuple)
                and len(target.elts) == 2
            ):
                return self._rows([target.elts[1]], [over.args[0]], target.elts[0])
            if function == "zip" and isinstance(target, ast.Tuple) and len(target.elts) == len(over.args):
                return self._rows(target.elts, over.args)
        return self._rows([target], [over])

    def _counts(self, variable: str) -> Callable[[], None]:
        def first() -> None:
            self.it.values[variable] = Scalar(name(self.it.called(variable)), "int")
            self.it.unsure.discard(variable)

        return first

    def _rows(self, targets: Sequence[ast.expr], over: Sequence[ast.expr], counter: ast.expr | None = None) -> Header:
        """Over the rows of tensors."""
        rows = [self.it.row(one) for one in over]
        if any(row.listed or row.array is None for row in rows):
            raise DeclinedError("a loop runs over something that is no tensor in memory")
        lengths = [row.extents[0].code for row in rows]
        stop = code(lengths[0]) if len(set(lengths)) == 1 else code(f"min({', '.join(lengths)})")
        at = self.it.called(counter.id) if isinstance(counter, ast.Name) else self.writer.fresh("at")

        def first() -> None:
            if isinstance(counter, ast.Name):
                self._counts(counter.id)()
            for target, row in zip(targets, rows, strict=True):
                self.assign(target, subscript(self.writer, row, [Scalar(name(at), "int")]))

        return (at, code("range(stop)", stop=stop)), first


def _reads(value: Value) -> frozenset[str]:
    return value.reads if isinstance(value, Row) else frozenset()


def _reversed(over: ast.Call) -> ast.expr:
    """``range(n)`` backwards, as a range of its own where it has no step."""
    if len(over.args) == 3:
        raise DeclinedError("a range with a step is reversed")
    stop = over.args[-1]
    if len(over.args) == 1:
        return code("range(stop - 1, -1, -1)", stop=stop)
    start = over.args[0]
    return code("range(stop - 1, start - 1, -1)", start=start, stop=stop)
