"""What a reader of formulas holds for a piece of text: an expression, or a condition that is already settled.

NOTE [Constants are folded in float64]: ``log(2)``, ``2**0.5``, ``1 < 2`` are computed while reading, as Python computes
them; what Python refuses (``log(0)``, an overflow) stays an operation and becomes at run time what torch makes of it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

from gradwright.kernels.formula import expression as ex
from gradwright.kernels.formula.expression import CONDITION, Expression

# A bool is a condition that holds, or doesn't, for all elements alike.
Value = Expression | bool

_REWRITTEN: Final[dict[str, Callable[..., Expression]]] = {
    "add": ex.add,
    "sub": ex.sub,
    "mul": ex.mul,
    "div": ex.div,
    "neg": ex.neg,
}
_FOLDED: Final[dict[str, Callable[..., float]]] = {
    **{name: getattr(math, name) for name in ("exp", "log", "log1p", "expm1", "sqrt", "erf", "pow")},
    **{name: getattr(math, name) for name in ("sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh")},
    "abs": math.fabs,
}
_ORDERS: Final[dict[str, Callable[[float, float], bool]]] = {
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
}


def applied(operation: str, *arguments: Expression) -> Expression:
    """An operation on numbers; a constant, where all its arguments are and Python can compute it."""
    if operation in _REWRITTEN:
        return _REWRITTEN[operation](*arguments)
    if operation in _FOLDED and all(argument.is_constant() for argument in arguments):
        try:
            return ex.constant(_FOLDED[operation](*[argument.value for argument in arguments]))
        except (ValueError, OverflowError):  # no finite number: NOTE [Constants are folded in float64]
            pass
    return ex.call(operation, *arguments)


def is_condition(value: Value) -> bool:
    return isinstance(value, bool) or value.kind == CONDITION


def as_number(value: Value) -> Expression:
    """A condition counts as 1 where it holds and as 0 elsewhere."""
    if isinstance(value, bool):
        return ex.constant(float(value))
    return ex.where(value, ex.constant(1.0), ex.constant(0.0)) if value.kind == CONDITION else value


def compared(order: str, a: Expression, b: Expression) -> Value:
    """``a < b`` and its like; ``order`` is "lt", "le", "gt", "ge", "eq" or "ne"."""
    if a.is_constant() and b.is_constant():
        return _ORDERS[order](a.value, b.value)
    return ex.call(order, a, b)


def negated(a: Value) -> Value:
    return not a if isinstance(a, bool) else ex.not_(a)


def both(a: Value, b: Value) -> Value:
    if isinstance(a, bool):
        return b if a else False
    if isinstance(b, bool):
        return a if b else False
    return ex.and_(a, b)


def either(a: Value, b: Value) -> Value:
    if isinstance(a, bool):
        return True if a else b
    if isinstance(b, bool):
        return True if b else a
    return ex.or_(a, b)


def chosen(condition: Value, a: Value, b: Value) -> Value:
    """``a`` where the condition holds, ``b`` elsewhere; a condition, where both are."""
    if isinstance(condition, bool):
        return a if condition else b
    if is_condition(a) and is_condition(b):
        return either(both(condition, a), both(negated(condition), b))
    return ex.where(condition, as_number(a), as_number(b))
