"""Python's operators and functions of numbers in a kernel's source, on values of LLVM's types.

Whole numbers are int64 (int32 where the source says so), real ones float64 or float32, conditions i1. Two numbers that
meet are computed in the wider of their types; a whole number and a real one, a float32 too, in float64, as in NumPy.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable
from typing import Final

from llvmlite import ir  # type: ignore[import-untyped]

from gradwright.kernels.machine.emission import F32, F64, I1, I32, I64, REALS, Lane, absolute


class NotInKernels(Exception):
    """What a kernel's source says that kernels can't."""


def converted(value: Lane, type: ir.Type) -> Lane:
    """The same number in another type: reals are rounded to nearest even or cut to an integer; True is 1."""
    if value.type != I1 or type == I1:
        return value.to(type)
    return Lane(value.builder, getattr(value.builder, "uitofp" if type in REALS else "zext")(value.value, type))


def truth(value: Lane) -> Lane:
    """Is it True, or a number other than 0?"""
    return value if value.type == I1 else value.differs(0)


def computed(sign: ast.operator, a: Lane, b: Lane) -> Lane:
    """``a sign b``. Raises: NotInKernels."""
    if type(sign) not in _BINARY:
        raise NotInKernels(f"the operator {type(sign).__name__}")
    if isinstance(sign, (ast.BitAnd, ast.BitOr)) and a.type == b.type == I1:
        common = I1
    elif isinstance(sign, ast.Div) and _common(a, b) not in REALS:
        common = F64
    else:
        common = _common(a, b)
    return _BINARY[type(sign)](converted(a, common), converted(b, common))


def compared(sign: ast.cmpop, a: Lane, b: Lane) -> Lane:
    """``a sign b``, false for NaN but with ``!=``. Raises: NotInKernels."""
    if type(sign) not in _COMPARISONS:
        raise NotInKernels(f"the comparison {type(sign).__name__}")
    common = _common(a, b)
    return _COMPARISONS[type(sign)](converted(a, common), converted(b, common))


def negative(value: Lane) -> Lane:
    return -converted(value, _common(value, value))


def inverted(value: Lane) -> Lane:
    """``not value``."""
    return truth(value) ^ 1


def both(a: Lane, b: Lane) -> Lane:
    """``a and b`` of conditions. What b is does not matter where a is false, even if it was computed from NaN cut to
    an integer, which LLVM takes for no value at all: hence no ``&``."""
    return truth(a).choose(truth(b), 0)


def either(a: Lane, b: Lane) -> Lane:
    """``a or b`` of conditions; see ``both``."""
    return truth(a).choose(truth(b).of(1), truth(b))


def _common(a: Lane, b: Lane) -> ir.Type:
    types = (a.type, b.type)
    if F64 in types or (F32 in types and types != (F32, F32)):
        return F64
    return F32 if F32 in types else I64


def _alike(a: Lane, b: Lane) -> tuple[Lane, Lane]:
    common = a.type if a.type == b.type else _common(a, b)
    return converted(a, common), converted(b, common)


def _floor_divided(a: Lane, b: Lane) -> Lane:
    return _quotient_and_rest(a, b)[0]


def _rest(a: Lane, b: Lane) -> Lane:
    return _quotient_and_rest(a, b)[1]


def _quotient_and_rest(a: Lane, b: Lane) -> tuple[Lane, Lane]:
    """Rounded down, with a rest of the divisor's sign. By 0, which would end the process: as by 1."""
    if a.is_real:
        raise NotInKernels("// and % of real numbers")
    divisor = b.equals(0).choose(1, b)
    quotient = Lane(a.builder, a.builder.sdiv(a.value, divisor.value))
    rest = a - quotient * divisor
    is_off = rest.differs(0) & ((rest ^ divisor) < 0)
    return is_off.choose(quotient - 1, quotient), is_off.choose(rest + divisor, rest)


def _absolute(value: Lane) -> Lane:
    if value.is_real:
        return absolute(value)
    whole = converted(value, I64)
    return (whole < 0).choose(-whole, whole)


def _least(a: Lane, b: Lane) -> Lane:
    """Python's: the first, unless the second is less."""
    first, second = _alike(a, b)
    return (second < first).choose(second, first)


def _most(a: Lane, b: Lane) -> Lane:
    first, second = _alike(a, b)
    return (second > first).choose(second, first)


def _to(type: ir.Type) -> Callable[[Lane], Lane]:
    return lambda value: converted(value, type)


_BINARY: Final[dict[type[ast.operator], Callable[[Lane, Lane], Lane]]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: _floor_divided,
    ast.Mod: _rest,
    ast.BitAnd: operator.and_,
    ast.BitOr: operator.or_,
    ast.BitXor: operator.xor,
    ast.LShift: operator.lshift,
    ast.RShift: operator.rshift,
}
_COMPARISONS: Final[dict[type[ast.cmpop], Callable[[Lane, Lane], Lane]]] = {
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Eq: Lane.equals,
    ast.NotEq: Lane.differs,
}

# By the names that a kernel's source uses: of one number, and of two.
FUNCTIONS: Final[dict[tuple[str, int], Callable[..., Lane]]] = {
    ("abs", 1): _absolute,
    ("min", 2): _least,
    ("max", 2): _most,
    ("int", 1): _to(I64),
    ("float", 1): _to(F64),
    ("int32", 1): _to(I32),
    ("float32", 1): _to(F32),
    ("float64", 1): _to(F64),
}
