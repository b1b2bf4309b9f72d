"""Arithmetic of numbers: + - * / and powers exactly, the rest as functions of which only the name is known."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import torch

from gradwright.doctor.prove.exact.field import Field, inverse, power, scrambled, simplest
from gradwright.doctor.prove.exact.number import ExactTensor, NotExaminedError, Number, Part

SAME = 1e-9  # relative distance at which two values may be one real number, told apart by rounding
ZERO = 1e-7

# Where a function of which only the name is known has a value that formulas may rely on.
KNOWN = {
    "log": {1: 0},
    "sqrt": {0: 0, 1: 1},
    "sin": {0: 0},
    "cos": {0: 1},
    "tan": {0: 0},
    "erf": {0: 0},
    "atan": {0: 0},
}


class Arithmetic:
    """Of one evaluation. ``unsure``: what was used that residues can't fully account for; equal stays equal."""

    def __init__(self, field: Field) -> None:
        self.field = field
        self.unsure: set[str] = set()
        self._constants: dict[tuple[float, float], tuple[float, tuple[int, ...]]] = {}

    # --- numbers from what Python and torch hold --------------------------------------------------------------------

    def number(self, value: Any) -> Number:
        """An array, a plain tensor or a Python number as a Number."""
        if isinstance(value, Number):
            return value
        if isinstance(value, ExactTensor):
            return value.number
        if isinstance(value, torch.Tensor):
            return self.of_tensor(value)
        if isinstance(value, (bool, int)):
            held = torch.tensor(float(value), dtype=torch.float64)
            return Number(held, tuple(torch.tensor(value % m) for m in self.field.moduli))
        if isinstance(value, float):
            return self.of_tensor(torch.tensor(value, dtype=torch.float64))
        raise NotExaminedError(f"it computes with a {type(value).__name__}")

    def of_tensor(self, tensor: torch.Tensor) -> Number:
        if tensor.is_complex():
            raise NotExaminedError("it computes with complex numbers")
        if not tensor.is_floating_point():
            values = tensor.to(torch.float64)
            return Number(values, tuple(tensor.to(torch.int64).remainder(m) for m in self.field.moduli))
        spacing = 2 * torch.finfo(tensor.dtype).eps
        values = tensor.detach().to(torch.float64).clone()
        residues = self.field.of_floats(values)
        rounded = torch.isfinite(values) & (values != values.round())
        for place in rounded.nonzero().tolist():
            at = tuple(place)
            values[at], fractions = self._constant(float(values[at]), spacing)
            for part, residue in zip(residues, fractions, strict=True):
                part[at] = residue
        return Number(values, residues)

    def _constant(self, value: float, spacing: float) -> tuple[float, tuple[int, ...]]:
        key = (value, spacing)
        if key not in self._constants:
            fraction = simplest(value, spacing)
            if fraction is None:
                self.unsure.add("a rounded constant")
                fraction = Fraction(value)
            self._constants[key] = (float(fraction), self.field.of_fraction(fraction))
        return self._constants[key]

    # --- exact ------------------------------------------------------------------------------------------------------

    def make(self, value: Part, function: Callable[..., Part], *operands: Number) -> Number:
        """Elementwise: ``value``, and ``function(modulus, *residues)`` for each modulus; operands may broadcast."""
        residues = self._residues(function, operands)
        if value.isfinite().all() and all(operand.value.isfinite().all() for operand in operands):
            return Number(value, residues)
        odd = ~value.isfinite()
        for operand in operands:
            odd = odd | ~operand.value.isfinite()
        told = self.field.of_floats(value)  # 1 / inf is 0 whatever the residue of inf; what is not finite: 0
        return Number(value, tuple(torch.where(odd, t, r) for t, r in zip(told, residues, strict=True)))

    def reduced(self, value: Part, function: Callable[..., Part], *operands: Number) -> Number:
        """As ``make``, for results of another shape than the operands'."""
        residues = self._residues(function, operands)
        if not value.isfinite().all():
            residues = tuple(torch.where(value.isfinite(), part, 0) for part in residues)
        return self.settled(Number(value, residues))

    def _residues(self, function: Callable[..., Part], operands: tuple[Number, ...]) -> tuple[Part, ...]:
        return tuple(
            function(m, *(operand.residues[k] for operand in operands)).remainder(m)
            for k, m in enumerate(self.field.moduli)
        )

    def settled(self, number: Number) -> Number:
        """With the value 0 where the formula is 0 and only rounding says otherwise."""
        zero = (number.residues[0] == 0) & (number.value.abs() < ZERO)
        return Number(torch.where(zero, 0.0, number.value), number.residues)

    def add(self, x: Any, y: Any) -> Number:
        a, b = self.number(x), self.number(y)
        return self.settled(self.make(a.value + b.value, lambda m, r, s: r + s, a, b))

    def subtract(self, x: Any, y: Any) -> Number:
        return self.add(x, self.negative(y))

    def negative(self, x: Any) -> Number:
        a = self.number(x)
        return Number(
            -a.value, tuple((-part).remainder(m) for m, part in zip(self.field.moduli, a.residues, strict=True))
        )

    def multiply(self, x: Any, y: Any) -> Number:
        a, b = self.number(x), self.number(y)
        return self.make(a.value * b.value, lambda m, r, s: r * s, a, b)

    def reciprocal(self, x: Any) -> Number:
        a = self.number(x)
        return self.make(1.0 / a.value, lambda m, r: inverse(r, m), a)

    def divide(self, x: Any, y: Any) -> Number:
        a, b = self.number(x), self.number(y)
        return self.make(a.value / b.value, lambda m, r, s: r * inverse(s, m), a, b)

    def integer_power(self, x: Any, exponent: int) -> Number:
        a = self.number(x)
        if exponent < 0:
            return self.reciprocal(self.integer_power(a, -exponent))
        return self.make(a.value**exponent, lambda m, r: power(r, exponent, m), a)

    def where(self, condition: torch.Tensor, x: Any, y: Any) -> Number:
        a, b = self.number(x), self.number(y)
        return Number(
            torch.where(condition, a.value, b.value),
            tuple(torch.where(condition, r, s) for r, s in zip(a.residues, b.residues, strict=True)),
        )

    # --- of which only the name is known ----------------------------------------------------------------------------

    def named(self, name: str, value: Part, *operands: Number) -> Number:
        """A function as a pseudo-random function of its arguments' residues: equal only where they are equal."""
        self.unsure.add(name)
        shape = value.shape
        keys = [operand.residues[0].expand(shape) for operand in operands]
        residues = [scrambled(name, self.field.seed, m, keys) for m in self.field.moduli]
        for argument, result in KNOWN.get(name, {}).items():
            residues = [torch.where(keys[0] == argument, result, part) for part in residues]
        if not value.isfinite().all():
            residues = [torch.where(value.isfinite(), part, 0) for part in residues]
        return Number(value, tuple(residues))

    def exp(self, x: Any) -> Number:
        """base^x; see NOTE [two moduli] in ``field``."""
        a = self.number(x)
        value = a.value.exp()
        self.unsure.add("exp")
        p, q = self.field.moduli
        first = power(torch.full_like(a.residues[1], self.field.base), a.residues[1], p)
        second = scrambled("exp", self.field.seed, q, [first])
        none = value == 0  # exp(-inf)
        odd = none | ~value.isfinite()
        return Number(value, (torch.where(odd, 0, first), torch.where(odd, 0, second)))

    def log(self, x: Any) -> Number:
        a = self.number(x)
        return self.named("log", a.value.log(), a)

    def sqrt(self, x: Any) -> Number:
        a = self.number(x)
        return self.named("sqrt", a.value.sqrt(), a)

    def power(self, x: Any, exponent: Any) -> Number:
        """x**exponent; sqrt is the square root of whatever power asks for it."""
        if isinstance(exponent, (int, float)) and math.isfinite(exponent):
            if float(exponent).is_integer() and abs(exponent) < 10_000:
                return self.integer_power(x, int(exponent))
            if float(2 * exponent).is_integer() and abs(exponent) < 100:
                root = self.sqrt(x)
                return self.multiply(self.integer_power(x, math.floor(exponent)), root) if exponent != 0.5 else root
        a, b = self.number(x), self.number(exponent)
        return self.named("pow", a.value**b.value, a, b)

    # --- by value ---------------------------------------------------------------------------------------------------

    def order(self, x: Any, y: Any) -> Part:
        """-1, 0, 1 (NaN where one is NaN) for x < y, x = y, x > y; equal by residues, the others by value."""
        a, b = self.number(x), self.number(y)
        left, right = torch.broadcast_tensors(a.value, b.value)  # type: ignore[no-untyped-call]  # torch's own
        signs = torch.where(left == right, 0.0, torch.sign(left - right))
        near = (left - right).abs() <= SAME * torch.maximum(left.abs(), right.abs())
        near &= left.isfinite() & right.isfinite()
        if near.any():
            same = a.residues[0] == b.residues[0]
            if (near & ~same).any():
                raise NotExaminedError("it compares numbers of which nobody can say whether they are equal")
            signs = torch.where(near & same, 0.0, signs)
        return signs

    def to_whole(self, x: Any, function: Callable[[Part], Part]) -> Part:
        """floor, ceil, round or trunc, as float64 values."""
        a = self.number(x)
        nearest = a.value.round()
        close = (a.value - nearest).abs() <= SAME * nearest.abs().clamp_min(1.0)
        whole = self.field.of_floats(nearest)[0] == a.residues[0]
        if (close & ~whole & a.value.isfinite()).any():
            raise NotExaminedError("it rounds numbers of which nobody can say whether they are whole")
        return function(torch.where(close & whole, nearest, a.value))
