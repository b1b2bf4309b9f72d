"""A kernel whose results are known, for an llvmlite that the tests have not met: is it still compiled rightly?

It has what other kernels are made of: operands of both precisions, a loop that LLVM makes vectors of, a choice, a
function of the C library, one of our approximations, a multiplication and addition in one step.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Callable
from typing import Final

SOURCE: Final = """
half = float32(0.5)


def kernel(parameters):
    for i in range(word(parameters, 0)):
        x = load_f32_as_f32(word(parameters, 1), i)
        y = load_f64_as_f64(word(parameters, 2), i)
        store_f32_0(word(parameters, 3), i, select(x < half, exp(x), fma(x, x, half)))
        store_f64_1(word(parameters, 4), i, sin(y) / (y + 1.0))
"""

_COUNT: Final = 100  # several vectors of the widest processor, and some that are left over
_TOLERANCE: Final = 1e-5  # float32 rounds at 6e-8


def find_fault(run: Callable[[int], None]) -> str | None:
    """What is wrong with the results of ``SOURCE``, compiled; None if nothing is. ``run`` takes parameters' address."""
    single = array("f", [index / _COUNT for index in range(_COUNT)])
    double = array("d", single)
    results = array("f", [math.nan] * _COUNT), array("d", [math.nan] * _COUNT)
    parameters = array("q", [_COUNT, *(each.buffer_info()[0] for each in (single, double, *results))])
    run(parameters.buffer_info()[0])
    expected = (
        [math.exp(x) if x < 0.5 else x * x + 0.5 for x in single],
        [math.sin(y) / (y + 1.0) for y in double],
    )
    for found, right in zip(results, expected, strict=True):
        for index, (one, other) in enumerate(zip(found, right, strict=True)):
            if not math.isclose(one, other, rel_tol=_TOLERANCE, abs_tol=_TOLERANCE):
                return f"element {index} of a kernel's result is {one}, not {other}"
    return None
