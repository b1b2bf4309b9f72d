"""Functions whose obvious formula cancels or overflows, made of other operations and with their derivative given."""

from __future__ import annotations

from gradwright.kernels.formula.expression import Expression, call, constant, where


def log_cosh(x: Expression) -> Expression:
    """log(cosh(x)) to a few units in the last place over the whole range, with the derivative tanh(x).

    With u = expm1(-|x|), which is in (-1, 0]: cosh(x) = 1 + u²/(2 (1 + u)), so that nothing cancels near 0, and
    cosh(x) = exp(|x|) (1 + u + u²/2), so that nothing overflows far out. One logarithm serves both.
    """
    distance = call("abs", x)
    u = call("expm1", -distance)
    near = call("lt", distance, constant(1.0))
    value = call("log1p", where(near, u * u / (u + 1.0) * 0.5, u + u * u * 0.5))
    return call("given", value + where(near, constant(0.0), distance), x, call("tanh", x))
