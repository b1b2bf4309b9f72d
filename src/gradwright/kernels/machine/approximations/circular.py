"""sin, cos and tan over the whole of float32, without a branch.

NOTE [Every turn]: x / 2π is needed modulo 1, for x up to 2^128. 1 / 2π is held as seven numbers of 29 bits each: in
float64, the product of each with a float32 is exact, and so is what is left of it beside its nearest integer. The sum
of what is left is the turn. After Payne and Hanek, "Radian reduction for trigonometric functions" (1983), who do this
with integers.
"""

from __future__ import annotations

import math
from typing import Final, NamedTuple

from gradwright.kernels.machine.emission import F32, F64, Lane, absolute, multiply_add, polynomial

# 1 / 2π = sum of these times 2^-29, 2^-58, ...
_TURN: Final = (0x517CC1B, 0xE4E4415, 0x53F84EA, 0x1F47D4D3, 0xEE06DB1, 0x95993C4, 0x72083FC)
_SIN: Final = (-0.16666655242443085, 0.008332187309861183, -0.00019517909095156938)  # (sin(√u) / √u - 1) / u
_COS: Final = (0.04166664555668831, -0.0013887309469282627, 2.4432336431345902e-05)  # (cos(√u) - 1 + u / 2) / u²


class _Quarter(NamedTuple):
    """x = (an integer whose last bits are ``number``) π/2 + r, and what sin and cos of r are."""

    number: Lane
    sin: Lane
    cos: Lane


def _quarter(x: Lane) -> _Quarter:
    wide = x.to(F64)
    turn = wide.of(0.0)
    for place, digits in enumerate(_TURN):
        product = wide * (digits * 2.0 ** (-29 * (place + 1)))
        rest = product - product.called("llvm.rint")
        turn = rest if place == 0 else turn + rest
    quarters = turn * 4.0
    whole = quarters.called("llvm.rint")
    r = ((quarters - whole) * (math.pi / 2)).to(F32)
    count = (whole.to(F32) + 1.5 * 2.0**23).bits()
    square = r * r
    sin = multiply_add(r * square, polynomial(square, *_SIN), r)
    cos = multiply_add(square * square, polynomial(square, *_COS), multiply_add(square, -0.5, 1.0))
    return _Quarter(count, sin, cos)


def _is_odd(count: Lane) -> Lane:
    return (count & 1).equals(1)


def sin(x: Lane) -> Lane:
    if x.type == F64:
        return x.called("llvm.sin")
    count, sin, cos = _quarter(x)
    y = (_is_odd(count).choose(cos, sin).bits() ^ ((count & 2) << 30)).real()
    return (absolute(x) < 2.0**-13).choose(x, y)  # the sign of zero


def cos(x: Lane) -> Lane:
    if x.type == F64:
        return x.called("llvm.cos")
    count, sin, cos = _quarter(x)
    return (_is_odd(count).choose(sin, cos).bits() ^ ((count + 1 & 2) << 30)).real()


def tan(x: Lane) -> Lane:
    if x.type == F64:
        return x.libm("tan")
    count, sin, cos = _quarter(x)
    is_odd = _is_odd(count)
    y = is_odd.choose(cos, sin) / is_odd.choose(-sin, cos)
    return (absolute(x) < 2.0**-13).choose(x, y)
