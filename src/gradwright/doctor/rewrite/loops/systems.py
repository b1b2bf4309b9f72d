"""Is there an integer solution? Systems of linear equations and inequalities, as dependence tests need them.

Equations are solved exactly where a variable stands with factor 1 or -1, after the test by the greatest common divisor
(an equation whose factors have a common divisor that does not divide its constant has none). What is left is
eliminated by Fourier and Motzkin's method, tightened to integers. "No" is certain; "yes" may be wrong.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

# Beyond so many inequalities the answer is "perhaps".
_TOO_MANY = 600


@dataclass(frozen=True)
class Linear:
    """``sum(factor * variable) + constant``."""

    factors: Mapping[str, int]
    constant: int = 0

    def __add__(self, other: Linear) -> Linear:
        names = {*self.factors, *other.factors}
        factors = {name: self.factors.get(name, 0) + other.factors.get(name, 0) for name in names}
        return Linear({name: factor for name, factor in factors.items() if factor}, self.constant + other.constant)

    def __sub__(self, other: Linear) -> Linear:
        return self + other.times(-1)

    def times(self, factor: int) -> Linear:
        factors = {name: factor * own for name, own in self.factors.items()} if factor else {}
        return Linear(factors, factor * self.constant)

    def plus(self, constant: int) -> Linear:
        return Linear(self.factors, self.constant + constant)


def variable(name: str) -> Linear:
    return Linear({name: 1})


def feasible(zero: Iterable[Linear], not_negative: Iterable[Linear]) -> bool:
    """Whether integers may exist with every form of ``zero`` 0 and every one of ``not_negative`` at least 0.

    >>> i, j = variable("i"), variable("j")
    >>> feasible([i.times(2) - j.times(4).plus(1)], []), feasible([i - j], [i.plus(-3), j.times(-1).plus(2)])
    (False, False)
    >>> feasible([i - j], [i.plus(-3), j.times(-1).plus(3)])
    True
    """
    equations, bounds = [*zero], [*not_negative]
    while equations:
        equation = equations.pop()
        if not equation.factors:
            if equation.constant:
                return False
            continue
        divisor = math.gcd(*equation.factors.values())
        if equation.constant % divisor:
            return False
        name = min(equation.factors, key=lambda one: (abs(equation.factors[one]), one))
        equations = [_without(form, name, equation) for form in equations]
        bounds = [_without(form, name, equation) for form in bounds]
    return _bounded(bounds)


def _without(form: Linear, name: str, equation: Linear) -> Linear:
    """``form``, times a positive number, with ``name`` replaced by what the equation says it is."""
    own, factor = form.factors.get(name, 0), equation.factors[name]
    if not own:
        return form
    return form.times(abs(factor)) + equation.times(-own if factor > 0 else own)


def _bounded(bounds: list[Linear]) -> bool:
    known = {_key(form): form for form in map(_tightened, bounds)}
    while True:
        forms = [*known.values()]
        if any(not form.factors and form.constant < 0 for form in forms):
            return False
        forms = [form for form in forms if form.factors]
        names = {name for form in forms for name in form.factors}
        if not names or len(forms) > _TOO_MANY:
            return True

        def cost(name: str, forms: list[Linear] = forms) -> tuple[int, str]:
            lower = sum(form.factors.get(name, 0) > 0 for form in forms)
            upper = sum(form.factors.get(name, 0) < 0 for form in forms)
            return lower * upper - lower - upper, name

        chosen = min(names, key=cost)
        lower = [form for form in forms if form.factors.get(chosen, 0) > 0]
        upper = [form for form in forms if form.factors.get(chosen, 0) < 0]
        rest = [form for form in forms if chosen not in form.factors]
        pairs = [low.times(-high.factors[chosen]) + high.times(low.factors[chosen]) for low in lower for high in upper]
        known = {}
        for form in (*rest, *map(_tightened, pairs)):
            old = known.get(_key(form))
            if old is None or form.constant < old.constant:
                known[_key(form)] = form


def _key(form: Linear) -> tuple[tuple[str, int], ...]:
    return tuple(sorted(form.factors.items()))


def _tightened(form: Linear) -> Linear:
    """Divided by the common divisor of its factors; what is left of the constant is no integer's business."""
    if not form.factors:
        return form
    divisor = math.gcd(*form.factors.values())
    if divisor == 1:
        return form
    return Linear({name: factor // divisor for name, factor in form.factors.items()}, form.constant // divisor)
