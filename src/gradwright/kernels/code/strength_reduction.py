"""Strength reduction: operations as a CPU does them fast, with every result the same beyond rounding.

What is done, and what it changes:
- ``given`` becomes its first argument: nothing.
- x^n, n a whole number up to 8: products, of 1 / x for a negative n; each product rounds once more (at most 7 in all).
- x^½ and x^-½: a square root, as torch does it; other multiples of ¼ up to 8: products with square roots; rounded
  likewise.
- x / c, c a power of two whose inverse is a normal number: x · (1 / c), exactly the same.
- tanh(x / 2): one operation, which shares its exponential with sigmoid(x) and softplus(x).
- exp(x) and expm1(x), x never above 0 (like -|y| or -y²), log1p(exp(x)) of such an x: shorter code for the smaller
  range, which shares its exponential with sigmoid(y) and softplus(y).
- tanh(softplus(x)) and sech²(softplus(x)): quotients of polynomials in exp(-|x|), no logarithm, one exponential.
- clamp, minimum and maximum with constants that aren't NaN: one choice each, exactly the same.
Nothing is reordered, and products aren't fused with sums: arithmetic gives torch's bits.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Final

from gradwright.kernels.formula.expression import Expression, add, call, constant, div, in_order, mul, where

_MOST_FACTORS: Final = 8
_NEVER_BELOW_ZERO: Final = frozenset({"abs", "exp", "exp_below_zero", "exp_neg_square", "sqrt", "sigmoid", "softplus"})


def reduced(outputs: Iterable[Expression]) -> tuple[Expression, ...]:
    """The same formulas, of the operations of ``formula.operations`` without ``given``, and of others that stand in
    ``machine.approximations``, like "tanh_of_half" for tanh(x / 2)."""
    wanted = tuple(outputs)
    done: dict[bytes, Expression] = {}
    for node in in_order(wanted):
        if node.operation == "given":
            done[node.key] = done[node.arguments[0].key]
        elif not node.arguments:
            done[node.key] = node
        else:
            done[node.key] = _reduced(node.operation, [done[argument.key] for argument in node.arguments])
    return tuple(done[output.key] for output in wanted)


def _reduced(operation: str, arguments: list[Expression]) -> Expression:
    first, *others = arguments
    if operation == "pow" and others[0].is_constant():
        return _power(first, others[0].value)
    if operation == "div" and _inverse_is_exact(others[0]):
        return mul(first, constant(1 / others[0].value))
    if operation in ("exp", "expm1") and _sign(first) < 0:
        return call(f"{operation}_below_zero", first)
    if operation == "log1p" and first.operation == "exp_below_zero":
        return call("log1p_up_to_one", first)
    if operation == "tanh" and (half := _halved(first)):
        return call("tanh_of_half", half)
    if operation in ("tanh", "sech_square") and first.operation == "softplus":
        return call(f"{operation}_of_softplus", first.arguments[0])
    if operation == "clamp" and _is_bound(others[0]) and _is_bound(others[1]):
        return _at_most(_at_least(first, others[0]), others[1])
    if operation in ("minimum", "maximum"):
        bounded = _at_least if operation == "maximum" else _at_most
        for one, other in ((first, others[0]), (others[0], first)):
            if _is_bound(other):
                return bounded(one, other)
    return call(operation, *arguments)


def _power(x: Expression, n: float) -> Expression:
    if n == 0:
        return constant(1.0)
    count = abs(n)
    if count > _MOST_FACTORS or not (4 * n).is_integer():
        return call("pow", x, constant(n))
    if count == 0.5:
        root = call("sqrt", x)
        return root if n > 0 else div(constant(1.0), root)
    if count.is_integer():
        # The inverse first: the power of a large x would overflow where that of 1 / x is still a number.
        return _product(x if n > 0 else div(constant(1.0), x), int(count))
    # Unlike those of a square root, the powers of -0.0 are those of 0.0, and the powers of -inf those of inf.
    base = add(x, constant(0.0))
    root = _root(base, count % 1)
    if n < 0:
        base, root = div(constant(1.0), base), div(constant(1.0), root)
    power = mul(_product(base, int(count)), root) if count > 1 else root
    return where(call("eq", x, constant(-math.inf)), constant(math.inf if n > 0 else 0.0), power)


def _root(x: Expression, fraction: float) -> Expression:
    """x to the power ¼, ½ or ¾."""
    half = call("sqrt", x)
    if fraction == 0.5:
        return half
    quarter = call("sqrt", half)
    return quarter if fraction == 0.25 else mul(half, quarter)


def _product(x: Expression, count: int) -> Expression:
    """x to the power ``count``, by squaring."""
    if count == 1:
        return x
    half = _product(x, count // 2)
    square = mul(half, half)
    return mul(square, x) if count % 2 else square


def _inverse_is_exact(divisor: Expression) -> bool:
    if not divisor.is_constant() or divisor.value == 0 or not math.isfinite(divisor.value):
        return False
    mantissa, exponent = math.frexp(abs(divisor.value))
    return mantissa == 0.5 and -125 < exponent < 127


def _halved(x: Expression) -> Expression | None:
    """y, where x is y / 2."""
    if x.operation == "mul":
        for one, other in (x.arguments, x.arguments[::-1]):
            if other.is_constant(0.5):
                return one
    return None


def _sign(x: Expression, depth: int = 6) -> int:
    """1 of what is never below zero, -1 of what is never above it, whatever the inputs are (NaN aside); else 0.

    Looks so deep and no deeper: a graph has more ways through it than nodes.
    """
    if x.is_constant():
        return 0 if math.isnan(x.value) else (1 if x.value >= 0 else -1)
    if x.operation in _NEVER_BELOW_ZERO:
        return 1
    if depth == 0:
        return 0
    if x.operation == "mul" and x.arguments[0].key == x.arguments[1].key:
        return 1
    signs = [_sign(argument, depth - 1) for argument in x.arguments]
    if x.operation == "neg":
        return -signs[0]
    if x.operation == "mul" or (x.operation == "div" and x.arguments[1].is_constant()):
        return signs[0] * signs[1]
    return signs[0] if x.operation == "add" and signs[0] == signs[1] else 0


def _is_bound(x: Expression) -> bool:
    return x.is_constant() and not math.isnan(x.value)


def _at_least(x: Expression, low: Expression) -> Expression:
    """A NaN stays."""
    return where(call("lt", x, low), low, x)


def _at_most(x: Expression, high: Expression) -> Expression:
    return where(call("gt", x, high), high, x)
