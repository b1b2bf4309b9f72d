"""The mathematical functions of generated CPU kernels, written as LLVM IR.

float32: polynomials and bit arithmetic without branches, tables or calls, which LLVM vectorises; relative error at most
1e-6 over the whole range (the largest found is 6e-7, that of most 2e-7), subnormal arguments and results included, and
torch's values at 0, infinity and NaN. float64: the C library, a call for each element. Imported only where a kernel is
compiled: it imports llvmlite.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from llvmlite import ir  # type: ignore[import-untyped]

from gradwright.kernels.machine.approximations import (
    choices,
    circular,
    error_function,
    exponentials,
    hyperbolic,
    inverse_circular,
    logarithms,
    powers,
    sigmoids,
)
from gradwright.kernels.machine.emission import Instruction, Lane, accepts_reals

# How the operations of ``formula.operations`` are computed; "power" is pow, "tanh_of_half" tanh(x / 2), and so on.
_OF_ONE: Final = (
    *(exponentials.exp, exponentials.expm1, exponentials.exp_neg_square, error_function.erf),
    *(exponentials.exp_below_zero, exponentials.expm1_below_zero, logarithms.log1p_up_to_one),
    *(logarithms.log, logarithms.log1p, powers.sqrt, choices.sign),
    *(sigmoids.sigmoid, sigmoids.sigmoid_slope, sigmoids.softplus),
    *(sigmoids.tanh, sigmoids.tanh_of_half, sigmoids.sech_square, hyperbolic.sinh, hyperbolic.cosh),
    *(sigmoids.tanh_of_softplus, sigmoids.sech_square_of_softplus),
    *(circular.sin, circular.cos, circular.tan),
    *(inverse_circular.asin, inverse_circular.acos, inverse_circular.atan),
)
_OF_TWO: Final = (powers.power, choices.maximum, choices.minimum)


def _known(function: Callable[..., Lane], arity: int) -> Instruction:
    def emit(builder: ir.IRBuilder, *values: ir.Value) -> ir.Value:
        return function(*[Lane(builder, value) for value in values]).value

    return Instruction(function.__name__, accepts_reals(arity), emit)


# By the names that generated source uses.
APPROXIMATIONS: Final = {
    each.name: each
    for each in (*[_known(function, 1) for function in _OF_ONE], *[_known(function, 2) for function in _OF_TWO])
}
