"""Writing LLVM IR as arithmetic: the value of one element with operators, and how Numba gets to know a function of it.

NOTE [One element at a time]: everything here emits the code of ONE element, without branches, calls or tables, so that
LLVM's loop vectoriser makes of it code for 8 or 16 elements, on whatever vectors the processor has.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any, Final

from llvmlite import ir  # type: ignore[import-untyped]
from numba.core import types
from numba.core.typing.templates import Signature
from numba.extending import intrinsic

F32: Final = ir.FloatType()
F64: Final = ir.DoubleType()
I1, I8, I16, I32, I64 = (ir.IntType(width) for width in (1, 8, 16, 32, 64))


Typed = Callable[[Sequence[types.Type]], Signature | None]


class Lane:
    """The value of one element in the code that is being emitted; a plain number beside it takes its type."""

    __slots__ = ("builder", "value")

    def __init__(self, builder: ir.IRBuilder, value: ir.Value) -> None:
        self.builder = builder
        self.value = value

    @property
    def type(self) -> ir.Type:
        return self.value.type

    @property
    def is_real(self) -> bool:
        return isinstance(self.type, (ir.FloatType, ir.DoubleType))

    def of(self, other: Lane | float) -> Lane:
        """``other`` as a value of this one's type."""
        if isinstance(other, Lane):
            return other
        return Lane(self.builder, ir.Constant(self.type, other))

    def _binary(self, other: Lane | float, real: str, whole: str) -> Lane:
        name = real if self.is_real else whole
        return Lane(self.builder, getattr(self.builder, name)(self.value, self.of(other).value))

    def __add__(self, other: Lane | float) -> Lane:
        return self._binary(other, "fadd", "add")

    def __sub__(self, other: Lane | float) -> Lane:
        return self._binary(other, "fsub", "sub")

    def __mul__(self, other: Lane | float) -> Lane:
        return self._binary(other, "fmul", "mul")

    def __truediv__(self, other: Lane | float) -> Lane:
        return Lane(self.builder, self.builder.fdiv(self.value, self.of(other).value))

    __radd__ = __add__
    __rmul__ = __mul__

    def __rsub__(self, other: float) -> Lane:
        return self.of(other) - self

    def __rtruediv__(self, other: float) -> Lane:
        return self.of(other) / self

    def __neg__(self) -> Lane:
        return Lane(self.builder, self.builder.fneg(self.value) if self.is_real else self.builder.neg(self.value))

    def __and__(self, other: Lane | int) -> Lane:
        return Lane(self.builder, self.builder.and_(self.value, self.of(other).value))

    def __or__(self, other: Lane | int) -> Lane:
        return Lane(self.builder, self.builder.or_(self.value, self.of(other).value))

    def __xor__(self, other: Lane | int) -> Lane:
        return Lane(self.builder, self.builder.xor(self.value, self.of(other).value))

    def __lshift__(self, other: Lane | int) -> Lane:
        return Lane(self.builder, self.builder.shl(self.value, self.of(other).value))

    def __rshift__(self, other: Lane | int) -> Lane:
        """With the sign; ``shifted_right`` without."""
        return Lane(self.builder, self.builder.ashr(self.value, self.of(other).value))

    def shifted_right(self, other: Lane | int) -> Lane:
        return Lane(self.builder, self.builder.lshr(self.value, self.of(other).value))

    def _compare(self, sign: str, other: Lane | float) -> Lane:
        compare = self.builder.fcmp_ordered if self.is_real else self.builder.icmp_signed
        return Lane(self.builder, compare(sign, self.value, self.of(other).value))

    def __lt__(self, other: Lane | float) -> Lane:
        return self._compare("<", other)

    def __le__(self, other: Lane | float) -> Lane:
        return self._compare("<=", other)

    def __gt__(self, other: Lane | float) -> Lane:
        return self._compare(">", other)

    def __ge__(self, other: Lane | float) -> Lane:
        return self._compare(">=", other)

    def equals(self, other: Lane | float) -> Lane:
        return self._compare("==", other)

    def is_nan(self) -> Lane:
        return Lane(self.builder, self.builder.fcmp_unordered("uno", self.value, self.value))

    def choose(self, a: Lane | float, b: Lane | float) -> Lane:
        """This condition's choice: ``a`` where it holds, else ``b``. Both have been computed."""
        if not isinstance(a, Lane):
            assert isinstance(b, Lane), "a choice between two numbers has no type"
            a = b.of(a)
        return Lane(self.builder, self.builder.select(self.value, a.value, a.of(b).value))

    def bits(self) -> Lane:
        """Of a real: the integer of the same width and bits."""
        return Lane(self.builder, self.builder.bitcast(self.value, I32 if self.type == F32 else I64))

    def real(self) -> Lane:
        """Of an integer: the real of the same width and bits."""
        return Lane(self.builder, self.builder.bitcast(self.value, F32 if self.type == I32 else F64))

    def to(self, type: ir.Type) -> Lane:
        """The same number in another type; reals are rounded to nearest even, or cut to an integer."""
        if type == self.type:
            return self
        names = {(F32, F64): "fpext", (F64, F32): "fptrunc", (I32, I64): "sext", (I64, I32): "trunc"}
        name = names.get((self.type, type)) or ("fptosi" if self.is_real else "sitofp")
        return Lane(self.builder, getattr(self.builder, name)(self.value, type))

    def called(self, name: str, *others: Lane) -> Lane:
        """An intrinsic of LLVM (``llvm.sqrt``) over values of this one's type."""
        kind = ir.FunctionType(self.type, [self.type] * (1 + len(others)))
        function = self.builder.module.declare_intrinsic(name, [self.type], kind)
        return Lane(self.builder, self.builder.call(function, [self.value, *[other.value for other in others]]))

    def libm(self, name: str, *others: Lane) -> Lane:
        """A call of the mathematical library, which no loop is vectorised over."""
        kind = ir.FunctionType(self.type, [self.type] * (1 + len(others)))
        module = self.builder.module
        function = module.globals.get(name) or ir.Function(module, kind, name)
        function.attributes.add("nounwind")
        function.attributes.add("readnone")
        return Lane(self.builder, self.builder.call(function, [self.value, *[other.value for other in others]]))


def multiply_add(a: Lane, b: Lane | float, c: Lane | float) -> Lane:
    """a b + c, rounded once where the processor can do so cheaply, else twice."""
    return a.called("llvm.fmuladd", a.of(b), a.of(c))


def polynomial(x: Lane, *coefficients: float) -> Lane:
    """By Horner's rule, the constant term first."""
    *lower, highest = coefficients
    total = x.of(highest)
    for coefficient in reversed(lower):
        total = multiply_add(total, x, coefficient)
    return total


def absolute(x: Lane) -> Lane:
    return x.called("llvm.fabs")


def with_sign_of(magnitude: Lane, sign: Lane) -> Lane:
    return magnitude.called("llvm.copysign", sign)


def instruction(name: str, arity: int, typed: Typed, emit: Callable[..., ir.Value | None]) -> Any:
    """A function that Numba replaces by what ``emit(builder, *values)`` writes; ``None`` is the result of a statement.

    ``typed`` has the types of the arguments and answers with the signature, or ``None`` where it takes no such types.
    """

    def definition(typing_context: Any, *arguments: types.Type) -> Any:
        signature = typed(arguments)
        if signature is None:
            return None

        def generate(context: Any, builder: ir.IRBuilder, signature: Signature, values: Sequence[ir.Value]) -> Any:
            result = emit(builder, *values)
            return context.get_dummy_value() if result is None else result

        return signature, generate

    names = ["typing_context", *[f"a{k}" for k in range(arity)]]
    parameters = [inspect.Parameter(each, inspect.Parameter.POSITIONAL_OR_KEYWORD) for each in names]
    definition.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]  # Numba has no *arguments
    definition.__name__ = definition.__qualname__ = name
    return intrinsic(definition)


def reals(arguments: Sequence[types.Type]) -> Signature | None:
    """The signature of a function of reals of one precision."""
    first = arguments[0]
    is_alike = first in (types.float32, types.float64) and all(argument == first for argument in arguments)
    return first(*arguments) if is_alike else None
