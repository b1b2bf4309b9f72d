"""exp, expm1, exp(-x²), and the reduction that everything with an exponential shares.

x = k ln 2 + r, |r| <= ln 2 / 2, exp(x) = 2^k (1 + expm1(r)), expm1(r) = r + r² q(r); q is a minimax polynomial
(relative error 1.4e-8 of expm1). k comes from adding 3 · 2^22, whose last bits then hold it. ln 2 is split in two such
that k times the first part is exact (Cody and Waite, "Software Manual for the Elementary Functions", 1980).

NOTE [Two steps]: 2^k of a subnormal result is no normal number, and 2^128 is none either: the exponent is scaled by
2^64 out of the way, and the last multiplication takes that back, rounding once.

NOTE [Shared by LLVM]: functions of the same x that need the same exponential emit the same instructions, of which LLVM
keeps one copy. That is why sigmoid, softplus and their slopes all start with exp(-|x|), tanh and sech² with exp(-2|x|).
"""

from __future__ import annotations

import math
from typing import Final, NamedTuple

from gradwright.kernels.machine.emission import F64, Lane, absolute, multiply_add, polynomial

ROUNDING: Final = 1.5 * 2.0**23  # added to a number, leaves its nearest integer in the last bits
_ONE: Final = 127  # the exponent's bits in 1.0
_LN2_HIGH: Final = 355 / 512
_LN2_LOW: Final = -2.12194440e-4
_Q: Final = (0.4999999701976776, 0.1666654646396637, 0.04166743904352188, 0.008366256020963192, 0.0013870319817215204)
STEP: Final = 2.0**64


class Exponential(NamedTuple):
    """exp(x) = (1 + p) scale / STEP, for x <= 0; see NOTE [Two steps]."""

    p: Lane
    scale: Lane

    def scaled(self) -> Lane:
        """exp(x) STEP."""
        return multiply_add(self.p, self.scale, self.scale)

    def value(self) -> Lane:
        return self.scaled() * (1 / STEP)

    def minus_one(self) -> Lane:
        """expm1(x)."""
        power = self.scale * (1 / STEP)
        return multiply_add(self.p, power, power - 1.0)


def _reduced(x: Lane, rounding: float, rest: Lane | None = None) -> tuple[Lane, Lane]:
    """expm1(r), and the number whose last bits are k; of x + rest where there is a rest."""
    shifted = multiply_add(x, 1 / math.log(2), rounding)
    k = shifted - rounding
    r = multiply_add(k, -_LN2_LOW, multiply_add(k, -_LN2_HIGH, x))
    if rest is not None:
        r = r + rest
    return multiply_add(r * r, polynomial(r, *_Q), r), shifted


def reduced(x: Lane, bias: int) -> tuple[Lane, Lane]:
    """expm1(r) and 2^(k + bias), which has to be a normal number."""
    p, shifted = _reduced(x, ROUNDING)
    # The bits of 3 · 2^22 above those of k are shifted out.
    return p, ((shifted.bits() << 23) + (_ONE + bias << 23)).real()


def exponential_below_zero(x: Lane, rest: Lane | None = None) -> Exponential:
    """exp(x + rest) for x <= 0, a rest far smaller."""
    x = (x < -110.0).choose(-110.0, x)
    p, shifted = _reduced(x, ROUNDING + _ONE + 64, rest)
    return Exponential(p, (shifted.bits() << 23).real())


def exp(x: Lane) -> Lane:
    if x.type == F64:
        return x.called("llvm.exp")
    x = (x < -104.0).choose(-104.0, x)
    x = (x > 89.0).choose(89.0, x)
    p, shifted = _reduced(x, ROUNDING)
    return raised(p, shifted, is_negative=x < 0.0)


def raised(p: Lane, shifted: Lane, is_negative: Lane) -> Lane:
    """(1 + p) 2^k for k from -159 to 190, given 3 · 2^22 + k and whether k is negative; see NOTE [Two steps]."""
    bits = shifted.bits() << 23
    scale = (bits + is_negative.choose(bits.of(_ONE + 64 << 23), bits.of(_ONE - 64 << 23))).real()
    return multiply_add(p, scale, scale) * is_negative.choose(p.of(1 / STEP), p.of(STEP))


def expm1(x: Lane) -> Lane:
    if x.type == F64:
        return x.libm("expm1")
    clamped = (x < -20.0).choose(-20.0, x)
    clamped = (clamped > 89.0).choose(89.0, clamped)
    p, half = reduced(clamped, bias=-1)
    y = multiply_add(p, half, half - 0.5)
    # x itself, where it is tiny: the sign of zero, and subnormals, of which a half is inexact.
    return (absolute(x) < 1e-30).choose(x, y + y)


def exp_below_zero(x: Lane) -> Lane:
    """exp(x), for x <= 0."""
    return x.called("llvm.exp") if x.type == F64 else exponential_below_zero(x).value()


def expm1_below_zero(x: Lane) -> Lane:
    """expm1(x), for x <= 0."""
    if x.type == F64:
        return x.libm("expm1")
    return x.equals(0.0).choose(x, exponential_below_zero(x).minus_one())  # the sign of zero


def exp_neg_square(x: Lane) -> Lane:
    """exp(-x²), with x² in two parts: rounding it once would cost 1e-5 where it is large."""
    if x.type == F64:
        return (-(x * x)).called("llvm.exp")
    return exponential_of_square(x).value()


def exponential_of_square(x: Lane) -> Exponential:
    x = absolute(x)
    x = (x > 11.0).choose(11.0, x)
    upper = (x.bits() & 0xFFFFF000).real()  # 12 bits, whose square is exact
    return exponential_below_zero(-(upper * upper), -((x - upper) * (x + upper)))
