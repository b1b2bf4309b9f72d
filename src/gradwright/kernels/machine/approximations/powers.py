"""sqrt, and pow: 2^(y log2(x)), of which the exponent, up to 150, needs 31 bits after it.

log2(x) = k + 2 atanh(s) / ln 2, s = (m - 1) / (m + 1), x = 2^k m, is a sum of a few numbers in float64; what is small
beside them, and the power of two, are float32.

Specials are those of C's pow, which are torch's: pow(x, 0) = pow(1, y) = 1 even for NaN, a negative base takes integer
exponents only, an odd one keeps the sign, 0 to a negative power is infinite.
"""

from __future__ import annotations

import math
from typing import Final

from gradwright.kernels.machine.approximations.exponentials import ROUNDING, raised
from gradwright.kernels.machine.approximations.logarithms import parts
from gradwright.kernels.machine.emission import F32, F64, Lane, absolute, multiply_add, polynomial

# (2 atanh(s) / (s ln 2) - 2 / ln 2) / s², of s², and (2^r - 1) / r: minimax, relative error 1e-11 and 3e-9.
_ATANH: Final = (0.9617967009544373, 0.5770788192749023, 0.4119272828102112, 0.3364895284175873)
_EXP2: Final = (
    *(0.6931471824645996, 0.24022647738456726, 0.05550359562039375),
    *(0.009618500247597694, 0.0013390976237133145, 0.00015328907466027886),
)


def sqrt(x: Lane) -> Lane:
    return x.called("llvm.sqrt")


def _log2(a: Lane) -> Lane:
    """In float64, of a float32 >= 0, infinity or NaN."""
    k, f = parts(a)
    k = a.equals(0.0).choose(-math.inf, k)
    k = (a < math.inf).choose(k, a)
    inverse = 1.0 / (f + 2.0)
    narrow = f * inverse
    square = narrow * narrow
    curve = square * polynomial(square, *_ATANH)
    # The quotient in float64: one step of Newton's method.
    wide, rough = f.to(F64), inverse.to(F64)
    s = wide * rough
    s = multiply_add(s, 1.0 - (wide + 2.0) * rough, s)
    return multiply_add(s, curve.to(F64) + 2 / math.log(2), k.to(F64))


def _exp2(z: Lane) -> Lane:
    """In float32, of a float64."""
    z = (z < -152.0).choose(-152.0, z)
    z = (z > 130.0).choose(130.0, z)
    whole = z.called("llvm.rint")
    r = (z - whole).to(F32)
    return raised(r * polynomial(r, *_EXP2), whole.to(F32) + ROUNDING, is_negative=z < 0.0)


def power(x: Lane, y: Lane) -> Lane:
    if x.type == F64:
        return x.called("llvm.pow", y)
    a = absolute(x)
    magnitude = _exp2(y.to(F64) * _log2(a))
    magnitude = (a.equals(1.0) & y.equals(y)).choose(1.0, magnitude)  # to an infinite power: 0 · inf above
    is_whole = y.called("llvm.floor").equals(y)
    half = y * 0.5
    is_odd = is_whole & (half.called("llvm.floor").equals(half) ^ 1)
    sign = is_odd.choose(x.bits() & 0x80000000, x.bits().of(0))
    is_complex = (x < 0.0) & (x > -math.inf) & (is_whole ^ 1)
    result = is_complex.choose(math.nan, (magnitude.bits() | sign).real())
    return (x.equals(1.0) | y.equals(0.0)).choose(1.0, result)
