"""Statements of the loop, as statements of the kernel: assignments, branches, loops."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import replace

from gradwright.doctor.rewrite.kernels import scalars
from gradwright.doctor.rewrite.kernels.control import Control
from gradwright.doctor.rewrite.kernels.expressions import Expressions
from gradwright.doctor.rewrite.kernels.python_calls import Calls
from gradwright.doctor.rewrite.kernels.stores import Stores
from gradwright.doctor.rewrite.kernels.values import (
    Extent,
    Row,
    Scalar,
    Several,
    Value,
    of_array,
)
from gradwright.doctor.rewrite.kernels.views import Views, may_be
from gradwright.doctor.rewrite.loops.nodes import name
from gradwright.doctor.rewrite.source_text import DeclinedError

_IN_PLACE: dict[str, ast.operator] = {"add_": ast.Add(), "sub_": ast.Sub(), "mul_": ast.Mult(), "div_": ast.Div()}


class Statements(Control):
    """``loops``: those around the statement that is being translated. ``ended``: what names were at the end of the last
    loop's body."""

    def __init__(
        self,
        expressions: Expressions,
        functions: Mapping[str, ast.FunctionDef],
        stores: Stores,
        views: Views,
        read_after: Sequence[str],
    ) -> None:
        self.it = expressions
        self.writer = expressions.writer
        self.stores = stores
        self.views = views
        self.read_after = read_after
        self.ended: tuple[dict[str, Value], set[str]] = {}, set()
        calls = Calls(expressions, functions, self.all)
        expressions.call = calls.lower
        expressions.comprehension = calls.comprehension
        self.loops: list[ast.stmt] = []
        self.exits: list[tuple[dict[str, Value], set[str]]] = []

    def all(self, statements: Sequence[ast.stmt]) -> None:
        for statement in statements:
            self.one(statement)

    def one(self, node: ast.stmt) -> None:
        """Raises: DeclinedError."""
        if isinstance(node, ast.For):
            self._for(node)
        elif isinstance(node, ast.While):
            self._while(node)
        elif isinstance(node, ast.If):
            self._if(node)
        elif isinstance(node, ast.Assign):
            value = self.it.lower(node.value)
            self._check_views(node)
            if len(node.targets) > 1:
                value = self._settled("value", value)
            for target in node.targets:
                self.assign(target, value, node.value)
        elif isinstance(node, ast.AnnAssign) and node.value is not None:
            self.assign(node.target, self.it.lower(node.value), node.value)
        elif isinstance(node, ast.AugAssign):
            self._augmented(node.target, node.op, self.it.lower(node.value))
        elif isinstance(node, ast.Expr):
            self._expression(node.value)
        elif isinstance(node, ast.Break | ast.Continue | ast.Pass):
            if not isinstance(node, ast.Pass):
                self.exits.append((dict(self.it.values), set(self.it.unsure)))
            self.writer.put(node)
        else:
            raise DeclinedError(f"a kernel has nothing for the statement in line {node.lineno}")

    def _check_views(self, node: ast.Assign) -> None:
        """See ``views``."""
        (target, *_) = node.targets
        if isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
            self.views.check_swap(target.elts, node.value.elts)
            pairs = list(zip(target.elts, node.value.elts, strict=False))
        else:
            pairs = [(target, node.value)]
        for one, value in pairs:
            for part in may_be(value):
                found = self.it.lower(part) if isinstance(part, ast.Subscript | ast.Name) else None
                if isinstance(one, ast.Name) and isinstance(found, Scalar) and found.tensor is not False:
                    self.views.check_name(one.id, part, read_after=one.id in self.read_after)

    # --- assignments -------------------------------------------------------------------------------------------------

    def assign(self, target: ast.expr, value: Value, source: ast.expr | None = None) -> None:
        if isinstance(target, ast.Tuple | ast.List):
            self._unpacked(target, value)
        elif isinstance(target, ast.Name):
            if isinstance(value, Scalar) and value.type == "int" and value.tensor is not True and source is not None:
                _refuse_growth(target.id, source)
            self._named(target.id, value)
        elif isinstance(target, ast.Subscript):
            place = self._place(target)
            self.stores.store(place, value)
        else:
            raise DeclinedError(f"it sets {ast.unparse(target)}")

    def _place(self, target: ast.Subscript) -> Row | Scalar:
        base = target.value
        while isinstance(base, ast.Subscript):
            base = base.value
        found = self.it.lower(target)
        whole = self.it.lower(base)
        if not isinstance(found, Row | Scalar) or not isinstance(whole, Row) or whole.array is None or whole.listed:
            raise DeclinedError(f"it writes into {ast.unparse(target)}, which is no part of a tensor")
        if (
            isinstance(found, Row)
            and found.array is None
            and any(isinstance(n, ast.Subscript) for n in ast.walk(target.slice))
        ):
            raise DeclinedError("it writes through a tensor of indices")
        if isinstance(found, Scalar):
            if not isinstance(found.code, ast.Subscript):
                raise DeclinedError(f"it writes into {ast.unparse(target)}, which is no part of a tensor")
            return found
        return replace(found, reads=whole.reads)

    def _unpacked(self, target: ast.Tuple | ast.List, value: Value) -> None:
        if isinstance(value, Row) and not value.listed:
            raise DeclinedError("it unpacks a tensor")
        if not isinstance(value, Several) or len(value.items) != len(target.elts):
            raise DeclinedError("it unpacks something other than a tuple of that length")
        held = [self._settled("value", one) for one in value.items] if len(value.items) > 1 else list(value.items)
        for one, part in zip(target.elts, held, strict=True):
            self.assign(one, part)

    def _settled(self, wanted: str, value: Value) -> Value:
        """The value as it is now, whatever is assigned afterwards."""
        if isinstance(value, Scalar) and not isinstance(value.code, ast.Constant):
            return replace(value, code=self.writer.let(wanted, value.code))
        if isinstance(value, Row) and value.array is None:
            return self.writer.copied(value)
        if isinstance(value, Row):
            assert value.array is not None
            view = self.writer.let(wanted, value.array)
            assert isinstance(view, ast.Name)
            return of_array(view.id, value.extents, value.type, value.reads)
        return value

    def _named(self, user_name: str, value: Value) -> None:
        own = self.it.called(user_name)
        if isinstance(value, Scalar):
            self.writer.assign(own, value.code)
            value = replace(value, code=name(own))
        elif isinstance(value, Row):
            value = self._named_row(own, value)
        elif not isinstance(value, Several):
            raise DeclinedError(f"{user_name} becomes a list")
        else:
            items = tuple(self._settled(f"{own}_{at}", one) for at, one in enumerate(value.items))
            value = Several(items, value.names)
        self.it.values[user_name] = value
        self.it.unsure.discard(user_name)

    def _named_row(self, own: str, row: Row) -> Row:
        if row.listed:
            raise DeclinedError(f"{own} becomes a list")
        reads = row.reads
        if row.array is not None:
            self.writer.assign(own, row.array)
        else:
            made = self.writer.copied(row, f"new_{own}")
            assert isinstance(made.array, ast.Name)
            self.writer.assign(own, made.array)
            reads = made.reads
        extents = tuple(
            extent if extent.outer else Extent(("name", own, axis), f"{own}.shape[{axis}]")
            for axis, extent in enumerate(row.extents)
        )
        return of_array(own, extents, row.type, reads | {own})

    def _augmented(self, target: ast.expr, op: ast.operator, value: Value) -> None:
        if isinstance(target, ast.Subscript):
            self.stores.update(self._place(target), op, value)
            return
        if not isinstance(target, ast.Name):
            raise DeclinedError(f"it changes {ast.unparse(target)}")
        before = self.it.lower(target)
        if isinstance(before, Row):
            self.stores.update(before, op, value)  # in place, in torch as in NumPy
            return
        if not isinstance(before, Scalar) or not isinstance(value, Scalar):
            raise DeclinedError(f"{target.id} is changed by something that is no number")
        if isinstance(before.code, ast.Subscript):
            self.stores.update(before, op, value)  # a tensor without an axis, which the loop was given
            return
        if before.type == "int" and before.tensor is False and isinstance(op, ast.Mult | ast.Pow | ast.LShift):
            raise DeclinedError(f"{target.id} is an integer of Python's that may outgrow 64 bits")
        found = scalars.binary(self.writer, op, before, value)
        own = self.it.called(target.id)
        plain = (
            isinstance(found.code, ast.BinOp) and isinstance(found.code.left, ast.Name) and found.code.left.id == own
        )
        if plain and isinstance(found.code, ast.BinOp):
            self.writer.put(ast.AugAssign(ast.Name(own, ast.Store()), found.code.op, found.code.right))
        else:
            self.writer.assign(own, found.code)
        self.it.values[target.id] = replace(found, code=name(own))

    def _expression(self, node: ast.expr) -> None:
        if isinstance(node, ast.Constant):
            return
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute) or node.keywords:
            raise DeclinedError(f"a kernel has nothing for {ast.unparse(node)}")
        method, target = node.func.attr, node.func.value
        if method == "append" and isinstance(target, ast.Name) and len(node.args) == 1:
            for one in may_be(node.args[0]):
                self.views.check_kept(one)
            self.stores.append(target.id, self.it.lower(node.args[0]), node, self.loops)
            return
        values = [self.it.lower(one) for one in node.args]
        if method in _IN_PLACE and len(values) == 1:
            self._augmented(target, _IN_PLACE[method], values[0])
            return
        if method == "zero_" and not values:
            values = [scalars.number(0)]
        if method in ("copy_", "fill_", "zero_") and len(values) == 1:
            place = self._place(target) if isinstance(target, ast.Subscript) else self.it.lower(target)
            in_memory = place.array is not None if isinstance(place, Row) else isinstance(place, Scalar)
            if isinstance(place, Several) or not in_memory:
                raise DeclinedError(f"it changes {ast.unparse(target)} in place")
            if isinstance(place, Scalar) and not isinstance(place.code, ast.Subscript):
                raise DeclinedError(f"it changes {ast.unparse(target)} in place")
            self.stores.store(place, values[0])
            return
        raise DeclinedError(f"a kernel has nothing for {ast.unparse(node)}")


def _refuse_growth(target: str, source: ast.expr) -> None:
    """Products of Python's integers have no bound; those of 64 bits wrap."""
    grows = any(
        isinstance(one, ast.BinOp) and isinstance(one.op, ast.Mult | ast.Pow | ast.LShift) for one in ast.walk(source)
    )
    if grows and any(isinstance(one, ast.Name) and one.id == target for one in ast.walk(source)):
        raise DeclinedError(f"{target} is an integer of Python's that may outgrow 64 bits")
