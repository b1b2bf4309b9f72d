"""Arithmetic modulo primes: what a formula is, without rounding.

NOTE [two moduli]. ``p`` and ``q`` are primes with p = 2q + 1, and ``base`` generates the subgroup of order q of the
integers modulo p. Every number is kept modulo p and modulo q. Equality is decided modulo p. The exponential function is
base^(a mod q) modulo p, so that exp(a) exp(b) = exp(a + b) holds as an identity of residues. What exp gives modulo q is
a pseudo-random function of its residue modulo p: nothing but another exp looks at it.

Source: Schwartz (1980), Zippel (1979): two different polynomials of degree d agree at a random point with probability
at most d / p, here about d / 2e9 for each of two independent evaluations.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from fractions import Fraction

import torch

# A float within two units in the last place of a fraction with no larger denominator, or of a decimal with no more
# digits, is that number: 1e-5 is.
SIMPLEST = 1000
DIGITS = 5
SMALLEST_EXPONENT, LARGEST_EXPONENT = -1200, 1200


@dataclass(frozen=True)
class Field:
    """``p`` and ``q``: see NOTE [two moduli]; ``seed`` keys the pseudo-random functions."""

    p: int
    q: int
    seed: int
    base: int = 4  # a square other than 1: of order q

    @property
    def moduli(self) -> tuple[int, int]:
        return (self.p, self.q)

    def of_fraction(self, number: Fraction) -> tuple[int, ...]:
        return tuple(number.numerator * pow(number.denominator, -1, m) % m for m in self.moduli)

    def of_floats(self, values: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Residues of float64 values taken as the dyadic rationals they are. Not finite: 0."""
        finite = torch.where(torch.isfinite(values), values, 0.0)
        mantissa, exponent = torch.frexp(finite)
        whole = (mantissa * 2.0**53).to(torch.int64)
        place = exponent.to(torch.int64) - 53 - SMALLEST_EXPONENT
        return tuple(whole.remainder(m) * _powers_of_two(m)[place] % m for m in self.moduli)


FIELDS = (Field(2147483579, 1073741789, seed=1), Field(2147483123, 1073741561, seed=2))

_tables: dict[int, torch.Tensor] = {}


def _powers_of_two(modulus: int) -> torch.Tensor:
    if modulus not in _tables:
        exponents = range(SMALLEST_EXPONENT, LARGEST_EXPONENT)
        _tables[modulus] = torch.tensor([pow(2, e, modulus) for e in exponents], dtype=torch.int64)
    return _tables[modulus]


def simplest(value: float, spacing: float) -> Fraction | None:
    """The fraction that a rounded constant stands for (0.1 for 1/10), None if there is no simple one.

    ``spacing``: twice the relative distance of two floats of its dtype.

    >>> simplest(0.1, 4e-16), simplest(0.1 + 0.2, 4e-16), simplest(1e-5, 4e-16), simplest(2.0**0.5, 4e-16)
    (Fraction(1, 10), Fraction(3, 10), Fraction(1, 100000), None)
    """
    exact = Fraction(value)
    decimal = Fraction(f"{value:.{DIGITS}g}")
    for near in (exact.limit_denominator(SIMPLEST), decimal):
        if abs(near - exact) <= abs(exact) * Fraction(spacing):
            return near
    return None


def power(base: torch.Tensor, exponent: int | torch.Tensor, modulus: int) -> torch.Tensor:
    """base^exponent modulo ``modulus``, elementwise; ``exponent`` not negative. Cost: two operations per bit."""
    if base.numel() == 1:  # the elements of a loop
        return torch.full_like(base, pow(int(base), int(exponent), modulus))
    result = torch.ones_like(base)
    bits = exponent.bit_length() if isinstance(exponent, int) else 31
    for bit in range(bits):
        if isinstance(exponent, int):
            if exponent >> bit & 1:
                result = result * base % modulus
        else:
            result = torch.where((exponent >> bit) & 1 == 1, result * base % modulus, result)
        base = base * base % modulus
    return result


def inverse(residue: torch.Tensor, modulus: int) -> torch.Tensor:
    """1 / residue; 0 for 0 (by Fermat: residue^(modulus - 2))."""
    return power(residue, modulus - 2, modulus)


def scrambled(name: str, seed: int, modulus: int, arguments: list[torch.Tensor]) -> torch.Tensor:
    """A pseudo-random function of ``(name, *arguments)``, elementwise: the same for the same, otherwise unrelated."""
    state = int.from_bytes(hashlib.blake2b(f"{name} {seed} {modulus}".encode(), digest_size=7).digest())
    mixed = torch.full_like(arguments[0], state)
    for argument in arguments:
        mixed = (mixed ^ argument) * -7046029254386353131  # wraps modulo 2^64: the constants are splitmix64's
        mixed = (mixed ^ (mixed >> 30 & 0x3FFFFFFFF)) * -4658895280553007687
        mixed = (mixed ^ (mixed >> 27 & 0x1FFFFFFFFF)) * -7723592293110705685
        mixed = mixed ^ (mixed >> 31 & 0x1FFFFFFFF)
    return mixed.remainder(modulus)
