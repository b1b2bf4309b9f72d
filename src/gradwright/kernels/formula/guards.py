"""The conditions under which a derivative counts.

NOTE [Guards]: the derivative of ``where(x > 0, sqrt(x), 0)`` at 0 is 0, but a product of cotangents and partial
derivatives has 0 * inf = NaN there. What comes from a branch is therefore a value together with its guard, the
conditions under which it counts: the value goes on being multiplied, wild as it may be outside, and becomes
``where(guard, value, 0)`` only where it is added to something or handed over. The same with minimum, maximum, clamp
and masks. No NaN of a branch not taken is ever met.
"""

from __future__ import annotations

from functools import reduce

from gradwright.kernels.formula.expression import Expression, and_, call, constant, not_, or_, where

# A condition that has to be true, or false; all those of a guard have to be as they say.
Literal = tuple[Expression, bool]
Guard = tuple[Literal, ...]
Key = tuple[bytes, bool]


def literal(condition: Expression) -> Literal:
    holds = True
    while condition.operation == "not":
        condition, holds = condition.arguments[0], not holds
    return condition, holds


def key(each: Literal) -> Key:
    """The same for two literals that say the same."""
    return each[0].key, each[1]


def keys(guard: Guard) -> frozenset[Key]:
    return frozenset(key(each) for each in guard)


def without(guard: Guard, some: frozenset[Key]) -> Guard:
    return tuple(each for each in guard if key(each) not in some)


def together(guard: Guard, more: Literal) -> Guard | None:
    """Both; None, if they contradict each other."""
    if (more[0].key, not more[1]) in keys(guard):
        return None
    return guard if key(more) in keys(guard) else (*guard, more)


def either(a: Guard, b: Guard) -> Guard:
    """Where one of two holds; of neither is empty."""
    if len(a) == len(b) == 1 and _always_one(a[0], b[0]):
        return ()
    return (literal(or_(_conjunction(a), _conjunction(b))),)


def guarded(guard: Guard, value: Expression) -> Expression:
    """The value where the guard holds, and zero elsewhere."""
    return where(_conjunction(guard), value, constant(0.0)) if guard else value


def _conjunction(guard: Guard) -> Expression:
    return reduce(and_, (condition if holds else not_(condition) for condition, holds in guard))


def _always_one(a: Literal, b: Literal) -> bool:
    """Of not x < y and not y < x, the guards of a maximum's arguments, one always holds."""
    if a[1] or b[1] or a[0].operation not in ("lt", "gt"):
        return False
    return call(a[0].operation, *reversed(a[0].arguments)).key == b[0].key
