"""What travels through a formula while it is differentiated: a cotangent on the way back, a tangent on the way forward.

NOTE [Slope first]: partial derivatives are multiplied with one another, constants kept apart, and the cotangent comes
last: ``0.5*r*r`` gives ``c * r``, not ``c * (0.5*r) + (c*r) * 0.5``. A value must be computed as it was written; a
derivative was written by nobody. What that costs: a slope that overflows or underflows meets a tiny or huge cotangent
too late, where torch, which multiplies by it first, may still have a number.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import reduce
from typing import NamedTuple

from gradwright.kernels.formula.expression import Expression, add, constant, div, mul, neg, sub, where
from gradwright.kernels.formula.guards import (
    Guard,
    Key,
    Literal,
    either,
    guarded,
    key,
    keys,
    literal,
    together,
    without,
)
from gradwright.kernels.formula.rules import ONE, Partial


class Flow(NamedTuple):
    """``factor * coefficient * slope`` where its guard holds, and zero elsewhere.

    ``factor`` is the cotangent or the tangent that it began as; None, once several were added.
    """

    factor: Expression | None
    slope: Expression = ONE
    coefficient: float = 1.0
    guard: Guard = ()

    def through(self, partial: Partial) -> Flow | None:
        """Multiplied by a partial derivative; None, where what it has passed before rules that out."""
        guard = self.guard if partial.guard is None else together(self.guard, literal(partial.guard))
        if guard is None:
            return None
        coefficient, slope = _product(self.coefficient, self.slope, partial)
        if slope.operation == "neg":
            coefficient, slope = -coefficient, slope.arguments[0]
        return Flow(self.factor, slope, coefficient, guard)

    def plain(self) -> Expression:
        """It as one expression."""
        return guarded(self.guard, self._value())

    def multiplied_out(self) -> Flow:
        """The same without a factor."""
        if self.factor is None:
            return self
        sign = 1.0 if self.coefficient > 0 else -1.0  # kept apart, so that a sum may become a difference
        return Flow(None, self._replace(coefficient=sign * self.coefficient)._value(), sign, self.guard)

    def _value(self) -> Expression:
        if self.factor is None:
            return _scaled(self.coefficient, self.slope)
        if self.slope.is_constant():
            return mul(self.factor, constant(self.coefficient * self.slope.value))
        if _is_reciprocal(self.slope):
            return div(mul(self.factor, constant(self.coefficient)), self.slope.arguments[1])
        return mul(mul(self.factor, constant(self.coefficient)), self.slope)


def summed(flows: Sequence[Flow]) -> Flow:
    """The sum of flows, each of which counts under its guard."""
    by_factor: dict[bytes, list[Flow]] = {}
    for flow in flows:
        by_factor.setdefault(b"" if flow.factor is None else flow.factor.key, []).append(flow)
    sums = [_sum_of_one_factor(group) for group in by_factor.values()]
    return sums[0] if len(sums) == 1 else _sum_of_one_factor([each.multiplied_out() for each in sums])


def _product(coefficient: float, slope: Expression, partial: Partial) -> tuple[float, Expression]:
    """The product as a coefficient and a slope."""
    times, over = partial.times, partial.over
    product = coefficient * partial.coefficient
    if times.is_constant():
        product, times = product * times.value, ONE
    else:
        part, times = _half_or_double(times)
        product *= part
    if over.is_constant() and over.value:
        product, over = product / over.value, ONE
    if not 1e-30 < abs(product) < 1e30:  # outside float32, where the slope might bring it back: multiplied as it comes
        product, times, over = coefficient, mul(constant(partial.coefficient), partial.times), partial.over
    if _is_reciprocal(slope):
        return product, div(div(times, slope.arguments[1]), over)
    return product, div(mul(slope, times), over)


def _half_or_double(slope: Expression) -> tuple[float, Expression]:
    """0.5 and x of ``0.5*x``, which makes it a like term of x.

    Of other constants it would not be exact, and they may be what keeps a product of many such in range.
    """
    if slope.operation == "mul":
        for one, other in (slope.arguments, slope.arguments[::-1]):
            if one.is_constant() and one.value in (0.5, 2.0):
                return one.value, other
    return 1.0, slope


def _sum_of_one_factor(flows: Iterable[Flow]) -> Flow:
    by_guard: dict[frozenset[Key], Flow] = {}
    for flow in _like_terms(flows):
        guard = keys(flow.guard)
        by_guard[guard] = _combined(by_guard[guard], flow, add, sub) if guard in by_guard else flow
    waiting = list(by_guard)
    while waiting:
        guard = waiting.pop()
        for each in reversed(by_guard[guard].guard) if guard in by_guard else ():
            rest = guard - {key(each)}
            opposite = rest | {(each[0].key, not each[1])}
            if opposite in by_guard:
                flow = _chosen(each, by_guard.pop(guard), by_guard.pop(opposite))
                by_guard[rest] = _combined(by_guard[rest], flow, add, sub) if rest in by_guard else flow
                waiting.append(rest)
                break
    return reduce(_sum_under_two_guards, by_guard.values())


def _like_terms(flows: Iterable[Flow]) -> Iterable[Flow]:
    """Each slope once under each guard: the two of ``x * x`` are ``2 * x``."""
    found: dict[tuple[bytes, frozenset[Key]], Flow] = {}
    for flow in flows:
        term = (flow.slope.key, keys(flow.guard))
        before = found.get(term)
        found[term] = flow if before is None else before._replace(coefficient=before.coefficient + flow.coefficient)
    return found.values()


def _chosen(each: Literal, a: Flow, b: Flow) -> Flow:
    """``a`` where the condition is as the literal says, otherwise ``b``: nothing has to be added."""
    condition, holds = each
    guard = without(a.guard, frozenset([key(each)]))
    if not holds:
        a, b = b, a
    chosen = _combined(a, b, lambda x, y: where(condition, x, y), lambda x, y: where(condition, x, neg(y)))
    return chosen._replace(guard=guard)


def _sum_under_two_guards(a: Flow, b: Flow) -> Flow:
    common = keys(a.guard) & keys(b.guard)
    of_a, of_b = without(a.guard, common), without(b.guard, common)
    total = _combined(
        a._replace(slope=guarded(of_a, _scaled(a.coefficient, a.slope)), coefficient=1.0),
        b._replace(slope=guarded(of_b, _scaled(b.coefficient, b.slope)), coefficient=1.0),
        add,
        sub,
    )
    guard = without(a.guard, keys(of_a))
    return total._replace(guard=(*guard, *either(of_a, of_b)) if of_a and of_b else guard)


_Binary = Callable[[Expression, Expression], Expression]


def _combined(a: Flow, b: Flow, same: _Binary, opposite: _Binary) -> Flow:
    """Two of the same factor as one, their coefficient kept apart where it is one; that of ``a`` is then the sign."""
    if opposite is sub and a.coefficient < 0 < b.coefficient:
        a, b = b, a
    if a.coefficient == b.coefficient:
        return a._replace(slope=same(a.slope, b.slope))
    if a.coefficient == -b.coefficient:
        return a._replace(slope=opposite(a.slope, b.slope))
    slope = same(_scaled(a.coefficient, a.slope), _scaled(b.coefficient, b.slope))
    return a._replace(slope=slope, coefficient=1.0)


def _scaled(coefficient: float, slope: Expression) -> Expression:
    if _is_reciprocal(slope):
        return div(constant(coefficient), slope.arguments[1])
    return mul(constant(coefficient), slope)


def _is_reciprocal(slope: Expression) -> bool:
    return slope.operation == "div" and slope.arguments[0].is_constant(1.0)
