"""Writing LLVM IR as arithmetic: the value of one element with operators, and what generated source calls by name.

NOTE [One element at a time]: everything here emits the code of ONE element, without branches, calls or tables, so that
LLVM's loop vectoriser makes of it code for 8 or 16 elements, on whatever vectors the processor has.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from llvmlite import ir  # type: ignore[import-untyped]

F32: Final = ir.FloatType()
F64: Final = ir.DoubleType()
I1, I8, I16, I32, I64 = (ir.IntType(width) for width in (1, 8, 16, 32, 64))
REALS: Final = (F32, F64)


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
        return self.type in REALS

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

    def differs(self, other: Lane | float) -> Lane:
        """Also a NaN, from itself."""
        compare = self.builder.fcmp_unordered if self.is_real else self.builder.icmp_signed
        return Lane(self.builder, compare("!=", self.value, self.of(other).value))

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


@dataclass(frozen=True, slots=True)
class Instruction:
    """What a kernel calls by name: ``emit(builder, *values)`` writes it for values of types that it ``accepts``.

    ``None`` from ``emit``: a statement, which has no value.
    """

    name: str
    accepts: Callable[[Sequence[ir.Type]], bool]
    emit: Callable[..., ir.Value | None]


def accepts(*expected: ir.Type) -> Callable[[Sequence[ir.Type]], bool]:
    """Values of just these types."""
    return lambda given: tuple(given) == expected


def accepts_reals(count: int) -> Callable[[Sequence[ir.Type]], bool]:
    """So many reals of one precision."""
    return lambda given: len(given) == count and given[0] in REALS and all(each == given[0] for each in given)
