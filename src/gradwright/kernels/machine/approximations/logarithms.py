"""log and log1p: x = 2^k m with m in [√½, √2), log(x) = k ln 2 + log1p(m - 1).

log1p(f) = f - f²/2 + f³ R(f), R a minimax polynomial (relative error 6e-9 of the whole). Source of the form: Moshier,
Cephes, logf.c; of log1p without a quotient for what 1 + x loses: Shibata, SLEEF, logk.
"""

from __future__ import annotations

import math
from typing import Final

from gradwright.kernels.machine.emission import F32, F64, Lane, multiply_add, polynomial

_R: Final = (
    *(0.3333333134651184, -0.250008225440979, 0.20001250505447388, -0.16623325645923615),
    *(0.14201320707798004, -0.13160094618797302, 0.12764111161231995, -0.07637499272733234),
)
# log1p(x) / x on [0, 1], minimax, relative error 9e-10.
_UP_TO_ONE: Final = (
    *(1.0, -0.49999988079071045, 0.33332714438438416, -0.24988864362239838, 0.19899621605873108, -0.16135157644748688),
    *(0.12479481101036072, -0.08323805034160614, 0.042113907635211945, -0.013691186904907227, 0.0020844400860369205),
)
_LN2_HIGH: Final = 355 / 512
_LN2_LOW: Final = -2.12194440e-4
_ROOT_HALF: Final = 0x3F3504F3  # the bits of √½


def _parts(x: Lane) -> tuple[Lane, Lane]:
    """k (an integer) and m of a normal number."""
    shifted = x.bits() - _ROOT_HALF
    return shifted >> 23, ((shifted & 0x7FFFFF) + _ROOT_HALF).real()


def parts(x: Lane) -> tuple[Lane, Lane]:
    """k and m - 1 of any number > 0."""
    is_subnormal = x < 2.0**-126
    k, m = _parts(is_subnormal.choose(x * 2.0**23, x))
    return k.to(F32) + is_subnormal.choose(x.of(-23.0), x.of(0.0)), m - 1.0


def _logarithm(k: Lane, f: Lane) -> Lane:
    """k ln 2 + log1p(f)."""
    square = f * f
    curve = multiply_add(polynomial(f, *_R), f, -0.5)
    return multiply_add(k, _LN2_HIGH, f + multiply_add(square, curve, k * _LN2_LOW))


def _at_the_ends(x: Lane, zero: Lane | float, result: Lane) -> Lane:
    """-inf at ``zero``, inf at inf, NaN below."""
    outside = x.equals(zero).choose(x.of(-math.inf), x.of(math.nan))
    return x.equals(math.inf).choose(x, (x > zero).choose(result, outside))


def log(x: Lane) -> Lane:
    if x.type == F64:
        return x.called("llvm.log")
    return _at_the_ends(x, 0.0, _logarithm(*parts(x)))


def log1p(x: Lane) -> Lane:
    if x.type == F64:
        return x.libm("log1p")
    k, m = _parts(x + 1.0)
    # 2^-k (1 + x) - 1, rounded once; above 2^20, where 2^-k may be subnormal, what 1 + x lost no longer counts.
    is_large = x > 2.0**20
    power = (0x3F800000 - (is_large.choose(k.of(0), k) << 23)).real()
    f = is_large.choose(m - 1.0, multiply_add(power, x, power - 1.0))
    result = _at_the_ends(x, -1.0, _logarithm(k.to(F32), f))
    return x.equals(0.0).choose(x, result)  # the sign of zero


def log1p_up_to_one(x: Lane) -> Lane:
    """log1p(x), for x from 0 to 1."""
    return x.libm("log1p") if x.type == F64 else x * polynomial(x, *_UP_TO_ONE)
