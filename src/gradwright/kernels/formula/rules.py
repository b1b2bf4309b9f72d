"""The one table of derivative rules: the partial derivative of every operation by every argument.

NOTE [torch's conventions]: at a kink a rule gives what torch's backward gives there: |x| has slope 0 at 0 and at NaN,
minimum and maximum halve a tie and let both through where one is NaN, pow(0, 0) has slope 0 in both arguments, sqrt is
vertical at 0. At the bounds of clamp torch's derivative changed from 2.13 to 2.14, so torch is asked (``ties``), and
for bounds that are tensors it is another one than for numbers. Two constants are numbers, and an infinite one is no
bound; otherwise both count as tensors, also an input for which a call hands over a number.

NOTE [Stable derivatives]: 1 - tanh(x)², s (1 - s), expm1(x) + 1 and 1 - x² cancel where they are small; the rules use
forms that keep their relative accuracy over the whole range (sech², s(x) s(-x), exp(x), (1 - x) (1 + x)).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final, NamedTuple

from gradwright.ground.torch_versions import ties
from gradwright.kernels.formula.expression import Expression, and_, call, constant, not_, or_, where

ONE: Final = constant(1.0)


class Partial(NamedTuple):
    """``coefficient * times / over`` where ``guard`` holds (everywhere, where there is none), and zero elsewhere."""

    times: Expression = ONE
    over: Expression = ONE
    coefficient: float = 1.0
    guard: Expression | None = None


# Of a node y, its partial derivative by one argument; None, where that is zero by convention.
Rule = Callable[[Expression], Partial | None]


def _of_one(partial: Callable[[Expression, Expression], Partial]) -> tuple[Rule]:
    """The rule of f(x), from a function of x and f(x)."""
    return (lambda y: partial(y.arguments[0], y),)


def _always(coefficient: float) -> Rule:
    return lambda y: Partial(coefficient=coefficient)


def _mul(other: int) -> Rule:
    return lambda y: Partial(y.arguments[other])


def _div_a(y: Expression) -> Partial:
    return Partial(over=y.arguments[1])


def _div_b(y: Expression) -> Partial:
    return Partial(y / y.arguments[1], coefficient=-1.0)


def _pow_base(y: Expression) -> Partial | None:
    """n x^(n - 1), and 0 for n = 0, where x = 0 would make 0 * inf of it."""
    x, n = y.arguments
    if n.is_constant():
        if n.value in (0.0, 1.0):
            return Partial() if n.value else None
        return Partial(x if n.value == 2 else call("pow", x, n - 1.0), coefficient=n.value)
    is_none = call("eq", n, constant(0.0))
    slope = where(is_none, constant(0.0), n * call("pow", x, n - 1.0))
    is_straight = or_(is_none, call("eq", n, ONE))
    bend = where(is_straight, constant(0.0), n * ((n - 1.0) * call("pow", x, n - 2.0)))
    return Partial(call("given", slope, x, bend, n, _pow_mixed(x, n)))


def _pow_exponent(y: Expression) -> Partial:
    """x^n log(x), and 0 for x = 0, n >= 0, where it would be 0 * -inf."""
    x, n = y.arguments
    if x.is_constant() and 0 < x.value < math.inf:
        return Partial(y, coefficient=math.log(x.value))
    log = call("log", x)
    is_settled = and_(call("eq", x, constant(0.0)), call("ge", n, constant(0.0)))
    slope = where(is_settled, constant(0.0), y * log)
    bend = where(is_settled, constant(0.0), y * log * log)
    return Partial(call("given", slope, x, _pow_mixed(x, n), n, bend))


def _pow_mixed(x: Expression, n: Expression) -> Expression:
    """The derivative of x^n by both, x^(n - 1) + n x^(n - 1) log(x); at x = 0, n > 1 it is 0.

    Given, as the one of either slope would be 0 at n = 0 and at x = 0, where these are set to 0; it is 1 / x and -inf.
    """
    power = call("pow", x, n - 1.0)
    is_settled = and_(call("eq", x, constant(0.0)), call("gt", n, ONE))
    return where(is_settled, constant(0.0), power + n * power * call("log", x))


def _extreme(mine: int) -> Callable[[Expression], Partial]:
    def rule(y: Expression) -> Partial:
        a, b = y.arguments[mine], y.arguments[1 - mine]
        loses = call("lt", a, b) if y.operation == "maximum" else call("gt", a, b)
        return Partial(where(call("eq", a, b), constant(0.5), ONE), guard=not_(loses))

    return rule


def _clamp_x(y: Expression) -> Partial:
    x, low, high = y.arguments
    if not _shares_ties(y):
        is_strict = low.is_constant() and high.is_constant() and not ties.find_ties().passes_at_numbers
        above = "gt" if is_strict and not low.is_constant(-math.inf) else "ge"
        below = "lt" if is_strict and not high.is_constant(math.inf) else "le"
        return Partial(guard=and_(call(above, x, low), call(below, x, high)))
    if extreme := _as_extreme(y):
        return _extreme(0)(extreme)
    is_tie = or_(_is_tie(x, low, low, high), _is_tie(x, high, low, high))
    return Partial(where(is_tie, constant(0.5), ONE), guard=not_(or_(call("lt", x, low), call("gt", x, high))))


def _clamp_low(y: Expression) -> Partial:
    x, low, high = y.arguments
    is_below = call("lt", x, low)
    if not _shares_ties(y):
        return Partial(guard=is_below if high.is_constant(math.inf) else and_(call("lt", low, high), is_below))
    if extreme := _as_extreme(y):
        return _extreme(1)(extreme)
    is_tie = _is_tie(x, low, low, high)
    is_taken = and_(is_below, call("le", low, high))
    return Partial(where(is_tie, constant(0.5), ONE), guard=or_(is_tie, is_taken))


def _clamp_high(y: Expression) -> Partial:
    x, low, high = y.arguments
    if not _shares_ties(y):
        return Partial(guard=or_(call("gt", x, high), call("lt", high, low)))
    if extreme := _as_extreme(y):
        return _extreme(1)(extreme)
    is_tie = _is_tie(x, high, low, high)
    is_taken = or_(call("lt", high, low), and_(call("gt", x, high), call("le", low, high)))
    return Partial(where(is_tie, constant(0.5), ONE), guard=or_(is_tie, is_taken))


def _shares_ties(y: Expression) -> bool:
    """Does a bound that x equals have half of the slope? Never one that is a number."""
    _, low, high = y.arguments
    return not (low.is_constant() and high.is_constant()) and ties.find_ties().shares_with_tensors


def _is_tie(x: Expression, bound: Expression, low: Expression, high: Expression) -> Expression:
    """Bounds that are equal, or in the wrong order, share nothing."""
    return and_(call("eq", x, bound), call("lt", low, high))


def _as_extreme(y: Expression) -> Expression | None:
    """``maximum(x, low)`` of ``clamp(x, min=low)``, ``minimum(x, high)`` of ``clamp(x, max=high)``; None of others."""
    x, low, high = y.arguments
    if high.is_constant(math.inf):
        return call("maximum", x, low)
    return call("minimum", x, high) if low.is_constant(-math.inf) else None


def _one_minus_square(x: Expression) -> Expression:
    """1 - x² that does not cancel near ±1, with the derivative -2x, which (1 + x) - (1 - x) would lose near 0."""
    return call("given", (1.0 - x) * (1.0 + x), x, -2.0 * x)


RULES: Final[dict[str, tuple[Rule | None, ...]]] = {
    "add": (_always(1.0), _always(1.0)),
    "sub": (_always(1.0), _always(-1.0)),
    "mul": (_mul(1), _mul(0)),
    "div": (_div_a, _div_b),
    "pow": (_pow_base, _pow_exponent),
    "minimum": (_extreme(0), _extreme(1)),
    "maximum": (_extreme(0), _extreme(1)),
    "where": (
        None,
        lambda y: Partial(guard=y.arguments[0]),
        lambda y: Partial(guard=not_(y.arguments[0])),
    ),
    "clamp": (_clamp_x, _clamp_low, _clamp_high),
    "neg": (_always(-1.0),),
    "exp": _of_one(lambda x, y: Partial(y)),
    "log": _of_one(lambda x, y: Partial(over=x)),
    "log1p": _of_one(lambda x, y: Partial(over=x + 1.0)),
    "expm1": _of_one(lambda x, y: Partial(call("exp", x))),
    "sqrt": _of_one(lambda x, y: Partial(over=y, coefficient=0.5)),
    "abs": _of_one(lambda x, y: Partial(call("sign", x))),
    "sign": (None,),
    "sin": _of_one(lambda x, y: Partial(call("cos", x))),
    "cos": _of_one(lambda x, y: Partial(call("sin", x), coefficient=-1.0)),
    "tan": _of_one(lambda x, y: Partial(1.0 + y * y)),
    "asin": _of_one(lambda x, y: Partial(over=call("sqrt", _one_minus_square(x)))),
    "acos": _of_one(lambda x, y: Partial(over=call("sqrt", _one_minus_square(x)), coefficient=-1.0)),
    "atan": _of_one(lambda x, y: Partial(over=x * x + 1.0)),
    "sinh": _of_one(lambda x, y: Partial(call("cosh", x))),
    "cosh": _of_one(lambda x, y: Partial(call("sinh", x))),
    "tanh": _of_one(lambda x, y: Partial(call("sech_square", x))),
    "erf": _of_one(lambda x, y: Partial(call("exp_neg_square", x), coefficient=2 / math.sqrt(math.pi))),
    "sigmoid": _of_one(lambda x, y: Partial(call("sigmoid_slope", x))),
    "softplus": _of_one(lambda x, y: Partial(call("sigmoid", x))),
    "exp_neg_square": _of_one(lambda x, y: Partial(x * y, coefficient=-2.0)),
    "sech_square": _of_one(lambda x, y: Partial(call("tanh", x) * y, coefficient=-2.0)),
    # s'' = s(x) s(-x) (s(-x) - s(x)), and s(-x) - s(x) = -tanh(x / 2)
    "sigmoid_slope": _of_one(lambda x, y: Partial(y * call("tanh", x * 0.5), coefficient=-1.0)),
    **dict.fromkeys(("lt", "le", "gt", "ge", "eq", "ne", "and", "or"), (None, None)),
    "not": (None,),
}


def rules_of(node: Expression) -> tuple[Rule | None, ...]:
    """One rule per argument; of an input or a constant, none."""
    if node.operation == "given":  # given(value, x1, slope1, x2, slope2, ...): the slopes are only multiplied by
        pairs = range(1, len(node.arguments), 2)
        return (None, *[rule for k in pairs for rule in (_mul(k + 1), None)])
    return RULES.get(node.operation, ())
