"""Operations on values: dtypes as the loop had them, conditions, and branches that are computed everywhere."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

from gradwright.doctor.rewrite.loops import nodes
from gradwright.doctor.rewrite.loops.clamping import choice_of, clamped
from gradwright.doctor.rewrite.loops.context import Context
from gradwright.doctor.rewrite.loops.ir import Loop
from gradwright.doctor.rewrite.loops.value import Value, aligned, fitted, joined_axes, kind_of, promoted
from gradwright.doctor.rewrite.source_text import DeclinedError
from gradwright.doctor.source.seen import SeenValue


class Arithmetic:
    """``order``: the order of the axes. ``guards``: conditions that what is computed now stands under.

    ``exact``: what becomes a number of Python's is computed with in float64, as Python does.
    """

    def __init__(self, context: Context, order: Sequence[Loop]) -> None:
        self.context, self.order = context, tuple(order)
        self.seen, self.torch = context.seen, context.torch
        self.guards: list[tuple[Value, bool]] = []
        self.exact = False

    def described(self, node: ast.expr) -> SeenValue | None:
        """What was seen of an expression, or of the name that it is."""
        found = self.seen.of(node) if getattr(node, "lineno", 0) else None
        if found is None and isinstance(node, ast.Name):
            found = self.seen.live_ins.get(node.id)
        return found

    def arithmetic(self, op: ast.operator, left: Value, right: Value) -> Value:
        if left.boolean and right.boolean and left.number and right.number:
            left, right = self.as_integer(left), self.as_integer(right)
        domain = False
        if isinstance(op, ast.Div | ast.FloorDiv | ast.Mod) and right.axes and nodes.number(right.node) is None:
            right, domain = self.harmless(right, 1)
        elif isinstance(op, ast.Pow) and not _smooth_power(right.node):
            left, domain = self.harmless(left, 1)
        elif self.careful and (isinstance(op, ast.Pow) or (isinstance(op, ast.Mult) and left.axes and right.axes)):
            left = self.harmless(left, 0)[0]
            right = right if nodes.number(right.node) is not None else self.harmless(right, 0)[0]
        result = self.joined(op, left, right, division=isinstance(op, ast.Div))
        return replace(result, domain=result.domain or domain)

    @property
    def careful(self) -> bool:
        """Whether what a condition excludes may be infinite: then its square has an infinite derivative."""
        return self.context.careful and bool(self.guards)

    def joined(self, op: ast.operator, left: Value, right: Value, *, division: bool = False) -> Value:
        left, right = self.together([left, right], division=division)
        one, other = aligned([left, right], self.order)
        return self.combined(ast.BinOp(one, op, other), [left, right], promoted([left, right], division=division))

    def combined(self, node: ast.expr, values: Sequence[Value], dtype: str, *, cell: int | None = None) -> Value:
        """``node`` computed from ``values``, axis by axis."""
        return Value(
            node,
            joined_axes(values, self.order),
            max(value.cell for value in values) if cell is None else cell,
            all(value.number for value in values),
            dtype,
            any(value.live for value in values),
            any(value.domain for value in values),
            frozenset[Loop]().union(*(value.sure for value in values)),
            frozenset[Loop]().union(*(value.unsure for value in values)),
            frozenset[str]() if dtype == "bool" else frozenset[str]().union(*(value.carriers for value in values)),
        )

    def together(self, values: Sequence[Value], *, division: bool = False) -> list[Value]:
        """As operands of one operation: what were Python's numbers do not decide the dtype, nor carry a gradient."""
        tensors = [value for value in values if not value.number]
        if not tensors:
            ranks = [kind_of(value.dtype) for value in values]
            floats = [value for value in values if value.axes and value.floating]
            if (division or max(ranks) == 2) and not floats:
                return [self.as_float(value) for value in values]
            return list(values)
        dtype = promoted([replace(v, axes=(), cell=0) if v.number else v for v in tensors], division=division)
        carriers = {carrier for value in tensors for carrier in value.carriers}
        like = next(iter(carriers)) if len(carriers) == 1 and all(value.dtype == dtype for value in tensors) else ""
        return [self.as_operand(value, dtype, like) for value in values]

    def as_operand(self, value: Value, dtype: str, like: str = "") -> Value:
        """A number beside tensors of ``dtype``; ``like``: the one tensor that they have it from."""
        if not value.number or not value.axes:
            return value
        node = nodes.method(value.node, "detach") if value.live else value.node
        if kind_of(value.dtype) == kind_of(dtype) and value.dtype != dtype:
            node = self.cast(node, dtype, like)
            value = replace(value, dtype=dtype)
        elif kind_of(value.dtype) > kind_of(dtype) and value.dtype not in ("int64", self.context.default_dtype):
            node = self.cast(node, self.context.default_dtype)
            value = replace(value, dtype=self.context.default_dtype)
        return replace(value, node=node, live=False)

    def cast(self, node: ast.expr, dtype: str, like: str = "") -> ast.expr:
        """``node.to(x.dtype)`` where x is known to be what the dtype comes from, else to the dtype that was seen."""
        live = self.seen.live_ins.get(like)
        if live is not None and live.tensor is not None and live.tensor.dtype == dtype:
            return nodes.method(node, "to", ast.parse(f"{like}.dtype", mode="eval").body)
        return nodes.method(node, "to", nodes.attribute(self.torch, dtype))

    def as_float(self, value: Value) -> Value:
        """Python divides integers in float64."""
        if not value.axes or value.floating:
            return value
        double = nodes.attribute(self.torch, "float64")
        node = value.node
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "arange":
            return replace(value, node=nodes.call(node.func, *node.args, dtype=double), dtype="float64")
        return replace(value, node=nodes.method(node, "double"), dtype="float64")

    def as_integer(self, value: Value) -> Value:
        if not value.axes:
            return replace(value, node=nodes.call(nodes.name("int"), value.node), dtype="int")
        return replace(value, node=nodes.method(value.node, "long"), dtype="int64")

    def settled(self, node: ast.expr, value: Value) -> Value:
        """Cast, where whole tensors promote dtypes that single elements do not."""
        seen = self.described(node)
        if seen is None or seen.tensor is None or value.number or not value.axes or seen.tensor.dtype == value.dtype:
            return value
        return replace(value, node=self.cast(value.node, seen.tensor.dtype), dtype=seen.tensor.dtype)

    def both(self, values: Sequence[Value], op: ast.boolop) -> Value:
        if not any(value.axes or value.cell for value in values):
            return self.combined(ast.BoolOp(op, [value.node for value in values]), values, "bool")
        if any(not value.boolean for value in values):
            raise DeclinedError("and, or of something that is no comparison")
        sign: ast.operator = ast.BitAnd() if isinstance(op, ast.And) else ast.BitOr()
        axes = joined_axes(values, self.order)
        parts = [fitted(value, axes, max(one.cell for one in values)) for value in values]
        node = parts[0]
        for part in parts[1:]:
            node = ast.BinOp(node, sign, part)
        return self.combined(node, values, "bool")

    def negated(self, value: Value) -> Value:
        if not value.axes:
            return value.with_node(ast.UnaryOp(ast.Not(), value.node))
        if isinstance(value.node, ast.UnaryOp) and isinstance(value.node.op, ast.Invert):
            return value.with_node(value.node.operand)
        if isinstance(value.node, ast.Compare) and isinstance(value.node.ops[0], ast.Eq | ast.NotEq):
            other: ast.cmpop = ast.NotEq() if isinstance(value.node.ops[0], ast.Eq) else ast.Eq()
            return value.with_node(ast.Compare(value.node.left, [other], value.node.comparators))
        return value.with_node(ast.UnaryOp(ast.Invert(), value.node))

    @contextmanager
    def under(self, condition: Value, truth: bool = True) -> Iterator[None]:
        """What is lowered here is meant only where the condition holds (or does not)."""
        self.guards.append((condition, truth))
        try:
            yield
        finally:
            self.guards.pop()

    def where(self, condition: Value, then: Value, other: Value) -> Value:
        if not condition.axes and not condition.cell:
            if then.number != other.number:
                raise DeclinedError("a number or a tensor, as a condition has it")
            first, second = aligned([then, other], self.order)
            chosen = self.combined(ast.IfExp(condition.node, first, second), [then, other], promoted([then, other]))
            return replace(chosen, sure=chosen.sure & frozenset(then.axes) & frozenset(other.axes))
        if then.domain or other.domain:
            raise DeclinedError("a branch of the condition has a domain, and is computed before it")
        then, other = self.together([then, other])
        if not (then.axes or other.axes) and kind_of(then.dtype) != kind_of(other.dtype):
            then, other = self._one_kind(then), self._one_kind(other)
        then = self._with_all_digits(then, other)
        dtype = promoted([then, other])
        tensor = {"float": self.context.default_dtype, "int": "int64"}.get(dtype, dtype)
        given = [replace(value, node=choice_of(value.node)) for value in (condition, then, other)]
        clamp = clamped(self.context, condition, then, other)
        node = clamp or nodes.call(nodes.attribute(self.torch, "where"), *aligned(given, self.order))
        result = self.combined(node, [replace(condition, carriers=frozenset()), then, other], tensor)
        return replace(result, number=then.number and other.number)

    def _with_all_digits(self, then: Value, other: Value) -> Value:
        """One of two numbers of Python's as a tensor of float64, where one is at work: of both, torch makes float32."""
        wide = any(one.tensor is not None and one.tensor.dtype == "float64" for one in self.seen.live_ins.values())
        plain = all(value.number and value.weak and value.dtype in ("int", "float") for value in (then, other))
        found = [nodes.number(value.node) for value in (then, other) if value.dtype == "float"]
        if not wide or not plain or all(number is not None and nodes.is_short(number) for number in found):
            return then
        double = nodes.attribute(self.torch, "float64")
        node = nodes.call(nodes.attribute(self.torch, "tensor"), then.node, dtype=double)
        return replace(then, node=node, dtype="float64")

    def _one_kind(self, value: Value) -> Value:
        """``1`` as ``1.0``, beside another float."""
        found = nodes.number(value.node)
        if found is not None and value.dtype == "int":
            return replace(value, node=ast.Constant(found), dtype="float")
        return value

    def harmless(self, value: Value, instead: int) -> tuple[Value, bool]:
        """The argument with something harmless where the conditions around do not hold, and whether it is needed yet.

        Under no condition the second is True: the result has a domain.
        """
        around = [(condition, truth) for condition, truth in self.guards if condition.axes]
        if not value.axes and not any(condition.axes for condition, _ in around):
            return value, False
        if not around:
            return value, True
        condition, truth = around[0]
        if len(around) > 1:
            sides = [one if holds else self.negated(one) for one, holds in around]
            condition, truth = self.both(sides, ast.And()), True
        safe = Value(nodes.constant(instead), number=True, dtype="int")
        parts = [condition, value, safe] if truth else [condition, safe, value]
        node = nodes.call(nodes.attribute(self.torch, "where"), *aligned(parts, self.order))
        return replace(self.combined(node, parts, value.dtype), number=value.number, domain=value.domain), False


def _smooth_power(exponent: ast.expr) -> bool:
    value = nodes.number(exponent)
    return value is not None and value >= 1
