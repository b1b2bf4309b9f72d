"""The same value with less: what autograd does for generality, a reader need not see."""

from __future__ import annotations

from typing import Any

import torch

from gradwright.doctor.probe.formula.values import Value, in_order, mapped

aten = torch.ops.aten
_RESHAPES = ("view", "_unsafe_view", "reshape", "_reshape_alias", "unsqueeze", "squeeze")
_COPIES = ("clone", "contiguous", "_to_copy")
_BROADCASTING = ("add", "sub", "mul", "div", "where")


class Simplifier:
    """Rewrites values, parents first; equal ones become the same."""

    def __init__(self) -> None:
        self.new: dict[Value, Value] = {}
        self.known: dict[Any, Value] = {}

    def of(self, value: Value) -> Value:
        for one in in_order([value]):
            if one not in self.new:
                self.new[one] = self._simple(one)
        return self.new[value]

    def _simple(self, value: Value) -> Value:
        if value.is_leaf:
            return value
        args = mapped(value.args, lambda leaf: self.new[leaf] if isinstance(leaf, Value) else leaf)
        kwargs = mapped(value.kwargs, lambda leaf: self.new[leaf] if isinstance(leaf, Value) else leaf)
        made = self._same(Value(value.op, args, kwargs, value.shape, value.dtype, value.name))
        while (less := self._less(made)) is not None:
            made = less
        if not made.is_leaf:
            made.name = made.name or value.name
        return made

    def _same(self, value: Value) -> Value:
        key = (value.op if isinstance(value.op, str) else str(value.op), _frozen(value.args), _frozen(value.kwargs))
        return self.known.setdefault(key, value)

    def _make(self, like: Value, op: Any, *args: Any) -> Value:
        made = self._same(Value(op, args, {}, like.shape, like.dtype))
        while (less := self._less(made)) is not None:
            made = less
        return made

    def _less(self, value: Value) -> Value | None:
        """A simpler value that is the same, ``None`` if there is none."""
        name, args = value.called, value.args
        first = args[0] if args and isinstance(args[0], Value) else None
        if first is None:
            return None
        if name in _COPIES and first.dtype == value.dtype:
            return first
        if (found := self._less_of_shapes(value, name, first)) is not None:
            return found
        if name == "threshold_backward" and isinstance(args[1], Value) and args[1].called == "relu" and args[2] == 0:
            return self._make(value, value.op, first, args[1].args[0], 0)
        if name == "t" and (first.called == "t" or len(first.shape) < 2):
            return _first(first) if first.called == "t" else first
        if name == "neg" and first.called == "neg":
            return _first(first)
        if name == "neg" and (inner := _multiple(first)) is not None:
            return self._make(value, aten.mul.Tensor, inner[0], -inner[1])
        if name == "neg" and first.called == "expand":
            return self._expanded(value, self._make(first.args[0], value.op, first.args[0]))
        if name == "sum" and len(args) > 1 and args[1] and all(first.shape[axis] == 1 for axis in args[1]):
            return self._make(value, aten.reshape.default, first, list(value.shape))
        if value.kwargs:
            return None
        if name == "where" and _is_power_of_nought(first) and number(args[1]) == 0 and args[2].shape == value.shape:
            return args[2]  # type: ignore[no-any-return]  # a value: it has a shape
        if len(args) == 2 and name in ("mul", "div", "add", "sub", "pow"):
            return self._less_of_two(value, name, first, args[1])
        return None

    def _less_of_two(self, value: Value, name: str, first: Value, second: Any) -> Value | None:
        if number(second) == (0 if name in ("add", "sub") else 1) and first.shape == value.shape:
            return first
        if name in ("mul", "div") and number(second) == -1 and first.shape == value.shape:
            return self._make(value, aten.neg.default, first)
        if name == "div" and first.called == "neg":
            return self._make(value, aten.neg.default, self._make(value, value.op, first.args[0], second))
        if name == "add" and second is first:
            return self._make(value, aten.mul.Tensor, first, 2)
        if name == "mul" and first.called == "neg":
            return self._make(value, aten.neg.default, self._make(value, value.op, first.args[0], second))
        if isinstance(second, Value):
            if name == "mul" and second.called == "neg":
                return self._make(value, aten.neg.default, self._make(value, value.op, first, second.args[0]))
            if name == "add" and second.called == "neg":
                return self._make(value, aten.sub.Tensor, first, second.args[0])
            if name == "add" and (inner := _multiple(second)) is not None and inner[1] < 0:
                return self._make(value, aten.sub.Tensor, first, self._make(second, second.op, inner[0], -inner[1]))
            if name == "add" and (inner := _multiple(first)) is not None and inner[1] < 0:
                return self._make(value, aten.sub.Tensor, second, self._make(first, first.op, inner[0], -inner[1]))
            if name == "add" and first.called == "neg":
                return self._make(value, aten.sub.Tensor, second, first.args[0])
            if name == "sub" and second.called == "neg":
                return self._make(value, aten.add.Tensor, first, second.args[0])
        if number(second) is not None and first.called == "expand":
            return self._expanded(value, self._make(first.args[0], value.op, first.args[0], second))
        if name == "mul" and (found := self._numbers_out(value, first, second)) is not None:
            return found
        return self._without_expand(value, first, second)

    def _expanded(self, like: Value, inner: Value) -> Value:
        return self._make(like, aten.expand.default, inner, list(like.shape))

    def _numbers_out(self, value: Value, first: Value, second: Any) -> Value | None:
        """The numbers of a product go to its end, as one."""
        if (own := number(second)) is not None:
            if (inner := _multiple(first)) is not None:
                return self._make(value, value.op, inner[0], inner[1] * own)
            return None
        for one, other, turned in ((first, second, False), (second, first, True)):
            if (inner := _multiple(one)) is not None:
                sides = (other, inner[0]) if turned else (inner[0], other)
                return self._make(value, value.op, self._make(value, value.op, *sides), inner[1])
        return None

    def _less_of_shapes(self, value: Value, name: str, first: Value) -> Value | None:
        """Views of views, and matrix products that go through a batch of one or through rows laid side by side."""
        if _is_reshape(value):
            if first.shape == value.shape:
                return first
            if _is_reshape(first):
                return self._make(value, aten.reshape.default, first.args[0], list(value.shape))
            if first.called == "sum" and first.args[2:] == (True,) and value.shape == _dropped(first):
                return self._make(value, aten.sum.dim_IntList, first.args[0], first.args[1])
            return self._rows(value, first)
        if name == "expand" and first.shape == value.shape:
            return first
        if name in ("permute", "transpose") and (order := _order(value)) is not None:
            if [axis for axis in order if first.shape[axis] > 1] == [
                a for a, size in enumerate(first.shape) if size > 1
            ]:
                return self._make(value, aten.reshape.default, first, list(value.shape))
            if first.called in ("permute", "transpose") and (before := _order(first)) is not None:
                return self._make(value, aten.permute.default, first.args[0], [before[axis] for axis in order])
            if (inner := _flat(first)) is not None and order == [0, 2, 1]:
                turned = self._same(Value(aten.t.default, (inner,), {}, inner.shape[::-1], inner.dtype))
                return self._make(value, aten.reshape.default, turned, list(value.shape))
        if name == "bmm" and (one := _flat(first)) is not None and (other := _flat(value.args[1])) is not None:
            product = Value(aten.mm.default, (one, other), {}, value.shape[1:], value.dtype)
            return self._make(value, aten.reshape.default, self._same(product), list(value.shape))
        return None

    def _rows(self, value: Value, first: Value) -> Value | None:
        """``(x.reshape(n, k) @ w).reshape(..., m)`` is ``x @ w``."""
        if first.called != "mm" or not _is_reshape(first.args[0]):
            return None
        rows, right = first.args[0].args[0], first.args[1]
        if rows.shape[:-1] != value.shape[:-1] or rows.shape[-1:] != right.shape[:1] or len(rows.shape) < 2:
            return None
        return self._make(value, aten.matmul.default, rows, right)

    def _without_expand(self, value: Value, first: Value, second: Any) -> Value | None:
        """What is only expanded to meet the other side is broadcast by the operation itself."""
        if value.called not in _BROADCASTING or not isinstance(second, Value):
            return None
        for one, other, turned in ((first, second, False), (second, first, True)):
            if one.called != "expand" or not isinstance(one.args[0], Value):
                continue
            inner = one.args[0]
            if _together(inner.shape, other.shape) == value.shape:
                return self._make(value, value.op, *((other, inner) if turned else (inner, other)))
        return None


def _is_power_of_nought(condition: Value) -> bool:
    """Is it whether a number is 0? So autograd asks of an exponent, whose other branch is as right there."""
    sides = condition.args
    return condition.called == "eq" and sides[0].op == "input" and not sides[0].shape and number(sides[1]) == 0


def _first(value: Value) -> Value:
    found: Value = value.args[0]
    return found


def _together(one: tuple[int, ...], other: tuple[int, ...]) -> tuple[int, ...]:
    shapes: Any = torch.broadcast_shapes(one, other)  # type: ignore[no-untyped-call]  # torch's own
    return tuple(shapes)


def _is_reshape(value: Value) -> bool:
    return value.called in _RESHAPES and isinstance(value.args[0], Value)


def _flat(value: Any) -> Value | None:
    """The matrix that a batch of one is a view of."""
    if not isinstance(value, Value) or not _is_reshape(value):
        return None
    inner: Value = value.args[0]
    return inner if len(inner.shape) == 2 and value.shape == (1, *inner.shape) else None


def _dropped(total: Value) -> tuple[int, ...]:
    """The shape of a sum without the axes that it was taken over."""
    rank = len(total.shape)
    over = {axis % rank for axis in total.args[1]}
    return tuple(size for axis, size in enumerate(total.shape) if axis not in over)


def _order(value: Value) -> list[int] | None:
    """The axes of the first argument, in the order of the result."""
    rank = len(value.shape)
    if value.called == "permute":
        return [axis % rank for axis in value.args[1]]
    order = list(range(rank))
    if rank and len(value.args) == 3:
        one, other = value.args[1] % rank, value.args[2] % rank
        order[one], order[other] = order[other], order[one]
    return order


def _multiple(value: Any) -> tuple[Value, float] | None:
    """What is multiplied with a plain number, and the number."""
    if not isinstance(value, Value) or value.called != "mul" or value.kwargs or value.name:
        return None
    factor = number(value.args[1])
    return None if factor is None or not isinstance(value.args[0], Value) else (value.args[0], factor)


def number(value: Any) -> float | None:
    """A plain number, or a tensor that is one."""
    if isinstance(value, Value):
        value = value.args[0] if value.called in ("number", "scalar_tensor") else None
    return value if isinstance(value, (int, float)) and not isinstance(value, bool) else None


def _frozen(tree: Any) -> Any:
    if isinstance(tree, Value):
        return ("number", repr(tree.args[0])) if tree.op == "number" else id(tree)
    if isinstance(tree, (list, tuple)):
        return tuple(_frozen(item) for item in tree)
    if isinstance(tree, dict):
        return tuple((key, _frozen(item)) for key, item in sorted(tree.items()))
    return (type(tree).__name__, repr(tree))
