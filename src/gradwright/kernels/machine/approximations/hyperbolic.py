"""sinh and cosh, by a quarter of exp|x|: the whole may overflow where they don't yet."""

from __future__ import annotations

from gradwright.kernels.machine.approximations.exponentials import reduced
from gradwright.kernels.machine.emission import F64, Lane, absolute, multiply_add, with_sign_of


def _quarter(x: Lane) -> tuple[Lane, Lane]:
    """p and 2^k / 4 of exp|x| = 2^k (1 + p)."""
    a = absolute(x)
    return reduced((a > 89.5).choose(89.5, a), bias=-2)


def sinh(x: Lane) -> Lane:
    """(m + m / (m + 1)) / 2 with m = expm1|x|."""
    if x.type == F64:
        return x.libm("sinh")
    p, power = _quarter(x)
    quarter = multiply_add(p, power, power - 0.25)
    half = quarter + quarter / (quarter * 4.0 + 1.0)
    return (absolute(x) < 1e-30).choose(x, with_sign_of(half + half, x))


def cosh(x: Lane) -> Lane:
    if x.type == F64:
        return x.libm("cosh")
    p, power = _quarter(x)
    quarter = multiply_add(p, power, power)
    half = quarter + 0.0625 / quarter
    return half + half
