"""sigmoid, softplus, tanh, and their slopes: one exponential and at most one division each.

With e = exp(-|x|), which never overflows: sigmoid(-|x|) = e / (1 + e), its slope e / (1 + e)², softplus(x) =
max(x, 0) + log1p(e). With E = exp(-2|x|): tanh|x| = (1 - E) / (1 + E), sech²x = 4 E / (1 + E)². All keep their relative
accuracy where they are small.
"""

from __future__ import annotations

from gradwright.kernels.machine.approximations.exponentials import STEP, Exponential, exponential_below_zero
from gradwright.kernels.machine.approximations.logarithms import log1p_up_to_one
from gradwright.kernels.machine.emission import F64, Lane, absolute, with_sign_of


def _decaying(x: Lane) -> Lane:
    """exp(-|x|) in float64."""
    return (-absolute(x)).called("llvm.exp")


def _decay(x: Lane) -> Exponential:
    """exp(-|x|) in float32."""
    return exponential_below_zero(-absolute(x))


def _decay_of_double(x: Lane) -> Exponential:
    """exp(-2|x|) in float32."""
    return exponential_below_zero(absolute(x) * -2.0)


def sigmoid(x: Lane) -> Lane:
    e = _decaying(x) if x.type == F64 else _decay(x).value()
    return (x < 0.0).choose(e, 1.0) / (e + 1.0)


def sigmoid_slope(x: Lane) -> Lane:
    e = _decaying(x) if x.type == F64 else _decay(x).value()
    whole = e + 1.0
    return e / (whole * whole)


def softplus(x: Lane) -> Lane:
    e = _decaying(x) if x.type == F64 else _decay(x).value()
    return (x > 0.0).choose(x, 0.0) + log1p_up_to_one(e)


def _odd_quotient(x: Lane, exponential: Exponential) -> Lane:
    """(1 - E) / (1 + E) with the sign of x."""
    minus_one = exponential.minus_one()
    return with_sign_of(minus_one / (minus_one + 2.0), x)


def tanh(x: Lane) -> Lane:
    return x.libm("tanh") if x.type == F64 else _odd_quotient(x, _decay_of_double(x))


def tanh_of_half(x: Lane) -> Lane:
    """tanh(x / 2), from the exponential that sigmoid(x) needs."""
    return (x * 0.5).libm("tanh") if x.type == F64 else _odd_quotient(x, _decay(x))


def sech_square(x: Lane) -> Lane:
    if x.type == F64:
        e = _decaying(x)
        sech = (e + e) / (e * e + 1.0)
        return sech * sech
    exponential = _decay_of_double(x)
    whole = exponential.value() + 1.0
    # 4 E may be a normal number where E no longer is.
    return exponential.scaled() * 4.0 / (whole * whole) * (1 / STEP)


def _of_softplus(x: Lane) -> tuple[Lane, Lane, Lane]:
    """The numerator of tanh(softplus(x)), the denominator of both, the numerator of sech(softplus(x)).

    With w = exp(softplus(x)) = 1 + exp(x): tanh = (w² - 1) / (w² + 1), sech = 2 w / (w² + 1); where x > 0, all are
    divided by exp(2x).
    """
    e = _decaying(x) if x.type == F64 else _decay(x).value()
    is_negative = x < 0.0
    square, double = e * e, e + e
    numerator = double + is_negative.choose(square, 1.0)
    denominator = numerator + is_negative.choose(2.0, square + square)
    return numerator, denominator, (double + 2.0) * is_negative.choose(1.0, e)


def tanh_of_softplus(x: Lane) -> Lane:
    numerator, denominator, _ = _of_softplus(x)
    return numerator / denominator


def sech_square_of_softplus(x: Lane) -> Lane:
    _, denominator, upper = _of_softplus(x)
    sech = upper / denominator
    return sech * sech
