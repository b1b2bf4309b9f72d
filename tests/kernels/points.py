"""The float64 value of an expression at a point."""

from collections.abc import Mapping

import torch

from gradwright.kernels.code.torch_code import torch_function
from gradwright.kernels.formula.expression import Expression
from gradwright.kernels.formula.program import Program


def value_at(output: Expression, point: Mapping[str, float]) -> float:
    function = torch_function(Program(tuple(point), (output,)))
    (value,) = function(*(torch.tensor(number, dtype=torch.float64) for number in point.values()))
    return float(value)


def same(a: float, b: float, relative: float = 1e-12) -> bool:
    """Equal up to rounding; NaN and infinities are equal to themselves."""
    if a != a or b != b:
        return a != a and b != b
    return a == b or abs(a - b) <= relative * max(abs(a), abs(b))
