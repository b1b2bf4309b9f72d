"""Comprehensions as loops: they fill a list, or add to a sum, before the statement in which they stand."""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from gradwright.doctor.rewrite.loops.actions import check_pure
from gradwright.doctor.rewrite.loops.definitions import Bound
from gradwright.doctor.rewrite.loops.expressions import (
    at,
    fresh,
    made,
    name,
    number,
)
from gradwright.doctor.rewrite.loops.ir import Place
from gradwright.doctor.rewrite.loops.tree import Action, Branch, Item
from gradwright.doctor.rewrite.source_text import DeclinedError
from gradwright.ground.syntax import dotted

if TYPE_CHECKING:
    from gradwright.doctor.rewrite.loops.reading import Reader


class Lifting:
    def __init__(self, reader: Reader) -> None:
        self.reader = reader

    def lifted(self, node: ast.expr, items: list[Item], statement: ast.stmt) -> ast.expr:
        """The expression with names instead of its comprehensions, whose loops are added to ``items``."""
        if isinstance(node, ast.Lambda):
            if any(isinstance(inner, (ast.ListComp, ast.GeneratorExp)) for inner in ast.walk(node)):
                raise DeclinedError(f"a comprehension inside a lambda: {ast.unparse(node)}")
            return node
        if isinstance(node, ast.Call) and dotted(node.func) == "sum" and node.args and not node.keywords:
            inside, start = node.args[0], (node.args[1] if len(node.args) > 1 else number(0))
            if isinstance(inside, (ast.ListComp, ast.GeneratorExp)):
                return self.summed(node, inside, self.lifted(start, items, statement), items, statement)
        if isinstance(node, (ast.ListComp, ast.GeneratorExp, ast.DictComp)):
            return self.listed(node, items, statement)
        if isinstance(node, ast.SetComp):
            raise DeclinedError(f"a set is filled: {ast.unparse(node)}")
        new = copy.copy(node)
        for field, value in ast.iter_fields(node):
            if isinstance(value, ast.expr):
                setattr(new, field, self.lifted(value, items, statement))
            elif isinstance(value, list):
                setattr(new, field, [self.part(part, items, statement) for part in value])
        return new

    def part(self, part: object, items: list[Item], statement: ast.stmt) -> object:
        if isinstance(part, ast.expr):
            return self.lifted(part, items, statement)
        if isinstance(part, ast.keyword):
            return ast.copy_location(ast.keyword(part.arg, self.lifted(part.value, items, statement)), part)
        return part

    def summed(
        self,
        node: ast.Call,
        inside: ast.ListComp | ast.GeneratorExp,
        start: ast.expr,
        items: list[Item],
        statement: ast.stmt,
    ) -> ast.expr:
        total = at(name(fresh("total", self.reader.taken)), node)
        place = Place(total.id, (), total)
        items.append(Action("assign", place, start, statement))

        def leaf() -> list[Item]:
            found: list[Item] = []
            value = self.reader.value(inside.elt, found, statement)
            check_pure([value])
            return [*found, Action("accumulate", place, value, statement, "+")]

        items += self.rounds(inside.generators, leaf, statement)
        return total

    def listed(
        self, node: ast.ListComp | ast.GeneratorExp | ast.DictComp, items: list[Item], statement: ast.stmt
    ) -> ast.expr:
        filled = at(name(fresh("items", self.reader.taken)), node)
        place = Place(filled.id, (), filled)
        empty: ast.expr = made(ast.Dict([], []) if isinstance(node, ast.DictComp) else ast.List([], ast.Load()))
        items.append(Action("assign", place, empty, statement))

        def leaf() -> list[Item]:
            found: list[Item] = []
            key = ""
            if isinstance(node, ast.DictComp):
                key = ast.unparse(self.reader.value(node.key, found, statement))
            value = self.reader.value(node.value if isinstance(node, ast.DictComp) else node.elt, found, statement)
            check_pure([value])
            return [*found, Action("append", place, value, statement, key)]

        items += self.rounds(node.generators, leaf, statement)
        return filled

    def rounds(
        self, generators: Sequence[ast.comprehension], leaf: Callable[[], list[Item]], statement: ast.stmt
    ) -> list[Item]:
        first, *rest = generators
        if first.is_async:
            raise DeclinedError("an asynchronous comprehension")
        items: list[Item] = []
        source = self.reader.value(first.iter, items, statement)

        def body() -> list[Item]:
            found: list[Item] = []
            tests = [self.reader.value(test, found, statement) for test in first.ifs]
            check_pure(tests)
            inside = self.rounds(rest, leaf, statement) if rest else leaf()
            for test in reversed(tests):
                inside = [Branch(test, inside, [], statement)]
            return [*found, *inside]

        return [*items, self.reader.loop(first.target, source, statement, body, Bound())]
