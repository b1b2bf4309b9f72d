"""Calls of torch's functions and of tensors' methods: one table, since ``torch.f(x, a)`` is ``x.f(a)``."""

from __future__ import annotations

import ast
from dataclasses import replace

from gradwright.doctor.rewrite.kernels import scalars
from gradwright.doctor.rewrite.kernels.exponentials import softmax
from gradwright.doctor.rewrite.kernels.expressions import Expressions, length
from gradwright.doctor.rewrite.kernels.making import FILLED, Given, Making
from gradwright.doctor.rewrite.kernels.reductions import REDUCTIONS, extreme_with_index, matmul, reduce
from gradwright.doctor.rewrite.kernels.rows import elementwise, flipped, permuted, with_new_axis
from gradwright.doctor.rewrite.kernels.values import Row, Scalar, Several, Value, code
from gradwright.doctor.rewrite.source_text import (
    DeclinedError,
)
from gradwright.doctor.source.names import words

MODULES = ("torch", "torch.nn.functional", "torch.special", "torch.linalg")
_ELEMENTWISE = frozenset({*scalars.UNARY, *scalars.KEEPING, *scalars.ASKING})
_BINARY: dict[str, ast.operator] = {
    "add": ast.Add(), "sub": ast.Sub(), "subtract": ast.Sub(), "mul": ast.Mult(), "multiply": ast.Mult(),
    "div": ast.Div(), "divide": ast.Div(), "true_divide": ast.Div(), "pow": ast.Pow(),
    "logical_and": ast.BitAnd(), "logical_or": ast.BitOr(),
}  # fmt: skip
_COMPARISONS: dict[str, ast.cmpop] = {
    "eq": ast.Eq(), "ne": ast.NotEq(), "lt": ast.Lt(), "le": ast.LtE(), "gt": ast.Gt(), "ge": ast.GtE(),
}  # fmt: skip
_PAIRS = {"minimum": "np.minimum(a, b)", "maximum": "np.maximum(a, b)", "fmin": "np.fmin(a, b)",
          "fmax": "np.fmax(a, b)", "logaddexp": "np.logaddexp(a, b)"}  # fmt: skip
_RANDOM = words("rand randn randint randperm bernoulli normal multinomial rand_like randn_like dropout poisson")
_SAME_TYPE = {"long": "int", "bool": "bool", "int": "int"}


class TorchCalls:
    def __init__(self, expressions: Expressions) -> None:
        self.it = expressions
        self.writer = expressions.writer
        self.making = Making(expressions)

    def function(self, name: str, node: ast.Call) -> Value:
        """``torch.name(...)``. Raises: DeclinedError."""
        given = Given(list(node.args), {one.arg or "": one.value for one in node.keywords})
        if name in ("stack", "tensor", "as_tensor"):
            return self.making.collected(name, given)
        if name in ("zeros", "ones", "full"):
            return self.making.filled(name, given)
        if name == "where":
            return self._where(given)
        if name in _RANDOM:
            raise DeclinedError("it draws random numbers, which a kernel would draw differently")
        first = given.take("input")
        if first is None:
            raise DeclinedError(f"torch.{name} is called without a tensor")
        return self.method(name, self.it.lower(first), given)

    def method(self, name: str, value: Value, given: Given) -> Value:
        """``value.name(...)``. Raises: DeclinedError."""
        found = self._method(name, value, given)
        given.done(name)
        return found

    def _method(self, name: str, value: Value, given: Given) -> Value:
        writer = self.writer
        if name in _ELEMENTWISE:
            return elementwise(writer, lambda v: scalars.unary(writer, name, v), value)
        if name in _BINARY or name in _COMPARISONS or name in _PAIRS:
            other = self._needed(given, "other", "exponent")
            return self._pair(name, value, other)
        if name in ("max", "min", "amax", "amin") or name in REDUCTIONS:
            return self._reduced(name, value, given)
        if name in ("softmax", "log_softmax"):
            return softmax(writer, self._a_row(value), self._axis(given, value), log=name == "log_softmax")
        if name in ("dot", "mv", "mm", "matmul", "inner", "vdot"):
            other = self._needed(given, "other", "tensor", "vec", "mat2")
            return matmul(writer, self._a_row(value), self._a_row(other))
        if name in ("outer", "ger"):
            column = with_new_axis(writer, self._a_row(value), 1)
            return self._pair("mul", column, self._needed(given, "vec2"))
        if name in ("clamp", "clip", "clamp_min", "clamp_max"):
            return self._clamped(name, value, given)
        if name in FILLED or name == "full_like":
            return self.making.filled(name, given, value)
        if name in ("double", "to", "type_as") or (name == "float" and isinstance(value, Row)):
            return self._as_real(name, value, given)
        return self._shape(name, value, given)

    # --- pieces ------------------------------------------------------------------------------------------------------

    def _needed(self, given: Given, *names: str) -> Value:
        node = given.take(*names)
        if node is None:
            raise DeclinedError("a function is called with too few arguments")
        return self.it.lower(node)

    def _a_row(self, value: Value) -> Row:
        if not isinstance(value, Row) or value.listed:
            raise DeclinedError("a function of tensors with axes is called with something else")
        return value

    def _axis(self, given: Given, value: Value) -> int:
        node = given.take("dim", "axis")
        at = scalars.literal(self.it.scalar(node)) if node is not None else None
        rank = len(self._a_row(value).extents)
        if not isinstance(at, int) or not -rank <= at < rank:
            raise DeclinedError("it names an axis that is not written as a number")
        return at % rank

    def _pair(self, name: str, value: Value, other: Value) -> Value:
        writer = self.writer

        def of_scalars(a: Scalar, b: Scalar) -> Scalar:
            if name in _BINARY:
                return scalars.binary(writer, _BINARY[name], a, b)
            if name in _COMPARISONS:
                return scalars.compare(writer, _COMPARISONS[name], a, b)
            if a.type != b.type or a.type == "bool" or (name == "logaddexp" and a.type != "float"):
                raise DeclinedError(f"it takes the {name} of numbers of two types")
            parts = [scalars.operand(writer, one, a.type, True) for one in (a, b)]
            native = a.type == "float" and (writer.exact or (a.native and b.native))
            return Scalar(code(_PAIRS[name], a=parts[0], b=parts[1]), a.type, True, native)

        return elementwise(writer, of_scalars, value, other)

    def _reduced(self, name: str, value: Value, given: Given) -> Value:
        if name in ("max", "min") and (given.positional or "other" in given.keywords):
            other = given.keywords.get("other", given.positional[0] if given.positional else None)
            assert other is not None
            if "dim" not in given.keywords and not isinstance(scalars.literal(self._maybe(other)), int):
                return self._pair(f"{name}imum", value, self._needed(given, "other"))
        if isinstance(value, Scalar) and name in ("sum", "max", "min", "amax", "amin", "mean", "prod"):
            return value
        row = self._a_row(value)
        whole = not given.positional and not {"dim", "axis"} & set(given.keywords)
        axes = list(range(len(row.extents))) if whole else [self._axis(given, row)]
        keep = given.take("keepdim")
        keepdim = isinstance(keep, ast.Constant) and keep.value is True
        if keep is not None and not isinstance(keep, ast.Constant):
            raise DeclinedError("whether an axis is kept is not written out")
        if name in ("max", "min") and not whole:
            if keepdim:
                raise DeclinedError("it keeps the axis of a maximum with indices")
            return extreme_with_index(self.writer, row, axes[0], ">" if name == "max" else "<")
        if name in ("argmax", "argmin") and len(axes) > 1:
            raise DeclinedError("it takes the place of a maximum in several axes at once")
        return reduce(self.writer, {"max": "amax", "min": "amin"}.get(name, name), row, axes, keepdim)

    def _maybe(self, node: ast.expr) -> Scalar:
        found = self.it.lower(node)
        return found if isinstance(found, Scalar) else Scalar(ast.Name("_", ast.Load()), "float")

    def _clamped(self, name: str, value: Value, given: Given) -> Value:
        low = given.take("min") if name != "clamp_max" else None
        high = given.take("max") if name != "clamp_min" else None
        for template, node in (("max(v, end)", low), ("min(v, end)", high)):
            if node is None or (isinstance(node, ast.Constant) and node.value is None):
                continue
            end = self.it.scalar(node)

            def cut(v: Scalar, template: str = template, end: Scalar = end) -> Scalar:
                if v.type != "float":
                    raise DeclinedError("it clamps integers")
                bound = scalars.operand(self.writer, end, "float", True)
                return Scalar(code(template, v=v.code, end=bound), v.type, True, v.native and self.writer.exact)

            value = elementwise(self.writer, cut, value)
        return value

    def _as_real(self, name: str, value: Value, given: Given) -> Value:
        """``(v > 1).float()``, ``mask.to(v.dtype)``: a real of the dtype that the others have, or the loop runs."""
        if not isinstance(value, Row | Scalar) or value.type == "int":
            raise DeclinedError("it makes reals of integers, which may be rounded")
        self.making.check_real(name, given)
        self.writer.makes_arrays = True  # so that all reals are asked to have one dtype
        if value.type == "float":
            return value
        return elementwise(self.writer, lambda v: Scalar(scalars.real_of(v), "float", True), value)

    def _where(self, given: Given) -> Value:
        parts = [self._needed(given, *names) for names in (("condition",), ("input",), ("other",))]
        given.done("torch.where")

        def choose(c: Scalar, a: Scalar, b: Scalar) -> Scalar:
            return scalars.chosen(self.writer, c, a, b, tensor=True)

        return elementwise(self.writer, choose, *parts)

    def _shape(self, name: str, value: Value, given: Given) -> Value:
        if name == "item" and isinstance(value, Scalar):
            return scalars.item_of(value)
        if name in ("detach", "cpu") or (isinstance(value, Scalar) and name in scalars.SAME):
            return value
        if isinstance(value, Scalar | Row) and _SAME_TYPE.get(name) == value.type:
            return value
        if name == "float" and isinstance(value, Scalar) and value.type != "float":
            return Scalar(scalars.real_of(value), "float", True)
        row = self._a_row(value)
        if name == "clone":
            return replace(row, array=None)
        if name in ("dim", "ndimension"):
            return scalars.number(len(row.extents))
        if name == "size":
            sizes = Several(tuple(length(extent) for extent in row.extents))
            return sizes.items[self._axis(given, row)] if given.positional or given.keywords else sizes
        if name == "numel" and len(row.extents) == 1:
            return length(row.extents[0])
        if name == "unsqueeze":
            at = scalars.literal(self.it.scalar(given.positional.pop(0))) if given.positional else None
            if not isinstance(at, int):
                raise DeclinedError("it names an axis that is not written as a number")
            return with_new_axis(self.writer, row, at % (len(row.extents) + 1))
        if name == "t" or (name == "transpose" and len(row.extents) == 2):
            given.positional.clear()
            return permuted(self.writer, row, [1, 0]) if len(row.extents) == 2 else row
        if name == "flip":
            return flipped(self.writer, row, self._axis(given, row))
        raise DeclinedError(f"a kernel has nothing for the method {name}")
