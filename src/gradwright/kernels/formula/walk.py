"""The walk over Python's AST of an expression: a closed list of what is understood, and an error for all else.

NOTE [Never run]: what a user writes is parsed and looked at; no part of it is ever evaluated or called.

NOTE [No recursion]: a walk is a chain of generators that yield one another, run by ``run``, so that the depth of what
was written meets no limit of the interpreter's stack.
"""

from __future__ import annotations

import ast
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Mapping
from typing import Any, Final

from gradwright.errors import UsageError
from gradwright.kernels.formula.arguments import check_arguments
from gradwright.kernels.formula.expression import Expression, constant
from gradwright.kernels.formula.functions import Function
from gradwright.kernels.formula.refused import not_a_condition, refused_constant, refused_node, refused_operator
from gradwright.kernels.formula.values import (
    Value,
    applied,
    as_number,
    both,
    chosen,
    compared,
    either,
    is_condition,
    negated,
)
from gradwright.kernels.formula.written import Written

# A part of the walk: yields the parts that it needs, is sent what each returns, and returns its own.
Part = Generator[Any, Any, Any]

LARGEST: Final = 20_000  # parts that are read for one formula, those of the functions that it calls included

_OPERATIONS: Final[Mapping[type[ast.operator], str]] = {
    ast.Add: "add",
    ast.Sub: "sub",
    ast.Mult: "mul",
    ast.Div: "div",
    ast.Pow: "pow",
}
_ORDERS: Final[Mapping[type[ast.cmpop], str]] = {
    ast.Lt: "lt",
    ast.LtE: "le",
    ast.Gt: "gt",
    ast.GtE: "ge",
    ast.Eq: "eq",
    ast.NotEq: "ne",
}


def run(part: Part) -> Any:
    """What the part returns: NOTE [No recursion]."""
    stack = [part]
    value: Any = None
    while stack:
        try:
            needed = stack[-1].send(value)
        except StopIteration as done:
            stack.pop()
            value = done.value
        else:
            stack.append(needed)
            value = None
    return value


class Steps:
    """How much was read for one formula."""

    def __init__(self) -> None:
        self.count = 0


class Walk(ABC):
    """The walk over one text. What a name means there is for a subclass to say."""

    def __init__(self, written: Written, steps: Steps) -> None:
        self.written = written
        self.steps = steps

    @abstractmethod
    def name(self, node: ast.Name) -> Value:
        """What a name stands for."""

    @abstractmethod
    def attribute(self, node: ast.Attribute) -> Value:
        """What ``a.b`` stands for."""

    @abstractmethod
    def callee(self, node: ast.expr) -> Function | Callable[[ast.Call], Part]:
        """The function that is called, or what reads the call."""

    def value(self, node: ast.expr) -> Part:
        """The value of an expression: a number or a condition."""
        self.count(node)
        handler = _HANDLERS.get(type(node))
        if handler is None:
            raise refused_node(self.written, node)
        return handler(self, node)

    def number(self, node: ast.expr) -> Part:
        return as_number((yield self.value(node)))

    def condition(self, node: ast.expr) -> Part:
        value = yield self.value(node)
        if not is_condition(value):
            raise not_a_condition(self.written, node)
        return value

    def count(self, node: ast.expr | ast.stmt) -> None:
        self.steps.count += 1
        if self.steps.count > LARGEST:
            raise self.refusal(
                node,
                "it is too complex",
                why=f"it has more than {LARGEST:,} parts, those of the functions that it calls included",
                do="split it into several formulas",
            )

    def refusal(self, node: ast.expr | ast.stmt | ast.arg | ast.keyword, what: str, *, why: str, do: str) -> UsageError:
        return self.written.refusal(self.written.start(node), what, why=why, do=do)

    def as_float(self, node: ast.expr, value: float) -> Expression:
        """A number as it was written: an int may be of any size."""
        try:
            number = float(value)
        except OverflowError:
            number = math.inf
        if math.isinf(number):
            why = "float64 ends at 1.8e308"
            raise self.refusal(node, "the number is too large", why=why, do="write inf, if infinity is meant")
        return constant(number)

    def _constant(self, node: ast.Constant) -> Part:
        yield from ()
        if isinstance(node.value, bool):
            return node.value
        if not isinstance(node.value, (int, float)):
            raise refused_constant(self.written, node)
        return self.as_float(node, node.value)

    def _name(self, node: ast.Name) -> Part:
        yield from ()
        return self.name(node)

    def _attribute(self, node: ast.Attribute) -> Part:
        yield from ()
        return self.attribute(node)

    def _binary(self, node: ast.BinOp) -> Part:
        operation = self.operation(node.op, node.left, node)
        left = yield self.number(node.left)
        right = yield self.number(node.right)
        return applied(operation, left, right)

    def operation(self, operator: ast.operator, left: ast.expr, node: ast.expr) -> str:
        operation = _OPERATIONS.get(type(operator))
        if operation is None:
            raise refused_operator(self.written, operator, left=left, node=node)
        return operation

    def _unary(self, node: ast.UnaryOp) -> Part:
        if isinstance(node.op, ast.Not):
            return negated((yield self.condition(node.operand)))
        if isinstance(node.op, ast.Invert):
            raise refused_operator(self.written, node.op, left=None, node=node)
        operand = yield self.number(node.operand)
        return applied("neg", operand) if isinstance(node.op, ast.USub) else operand

    def _connected(self, node: ast.BoolOp) -> Part:
        connect = both if isinstance(node.op, ast.And) else either
        total = yield self.condition(node.values[0])
        for part in node.values[1:]:
            total = connect(total, (yield self.condition(part)))
        return total

    def _compared(self, node: ast.Compare) -> Part:
        total: Value = True
        before = node.left
        left = yield self.number(before)
        for operator, after in zip(node.ops, node.comparators, strict=True):
            if type(operator) not in _ORDERS:
                raise refused_operator(self.written, operator, left=before, node=node)
            right = yield self.number(after)
            total = both(total, compared(_ORDERS[type(operator)], left, right))
            before, left = after, right
        return total

    def _chosen(self, node: ast.IfExp) -> Part:
        condition = yield self.condition(node.test)
        a = yield self.value(node.body)
        b = yield self.value(node.orelse)
        return chosen(condition, a, b)

    def _call(self, node: ast.Call) -> Part:
        function = self.callee(node.func)
        if not isinstance(function, Function):
            return (yield function(node))
        check_arguments(self.written, node, function)
        arguments: list[Value] = []
        for place, argument in enumerate(node.args):
            part = self.condition if place == 0 and function.chooses else self.value
            arguments.append((yield part(argument)))
        keywords: dict[str, Value] = {}
        for keyword in node.keywords:
            assert keyword.arg is not None  # check_arguments
            keywords[keyword.arg] = yield self.value(keyword.value)
        return function(*arguments, **keywords)


_HANDLERS: Final[Mapping[type[ast.expr], Callable[[Walk, Any], Part]]] = {
    ast.Constant: Walk._constant,
    ast.Name: Walk._name,
    ast.Attribute: Walk._attribute,
    ast.BinOp: Walk._binary,
    ast.UnaryOp: Walk._unary,
    ast.BoolOp: Walk._connected,
    ast.Compare: Walk._compared,
    ast.IfExp: Walk._chosen,
    ast.Call: Walk._call,
}
