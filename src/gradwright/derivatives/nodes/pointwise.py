"""One number in, one number out, smooth: tanh, exp, log, sin, x ** 3, ...

Slopes are those of the node's own backward; curvatures are written from the saved input x or result y and the slope s.
All of them are holomorphic where they take complex numbers.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeAlias

import torch
from torch import Tensor

from gradwright.derivatives.nodes.elementwise import (
    by_backward,
    elementwise,
    joined,
    one_field,
    piecewise_constant,
    same_place,
)
from gradwright.derivatives.nodes.rule import Rule
from gradwright.ground.torch_versions.nodes import read_saved

#: f'' from the node (for what it saved) and the slope f'.
Curvature: TypeAlias = Callable[[Any, Tensor], Tensor]


def pointwise(curvature: Curvature) -> Rule:
    """The rule of y = f(x), entry by entry."""
    return elementwise(
        by_backward,
        lambda step, slope: lambda i, j: curvature(step.node, torch.as_tensor(slope(0))),
        pushes=one_field,
    )


def of_input(curvature: Callable[[Tensor, Tensor], Tensor]) -> Rule:
    """For nodes that save their input: f'' of (x, f')."""
    return pointwise(lambda node, slope: curvature(read_saved(node, "self"), slope))


def of_result(curvature: Callable[[Tensor, Tensor], Tensor]) -> Rule:
    """For nodes that save their result: f'' of (y, f')."""
    return pointwise(lambda node, slope: curvature(read_saved(node, "result"), slope))


def _power(node: Any, slope: Tensor) -> Tensor:
    # x ** e with a number e; for e = 0 and 1 the second derivative is 0, also where x ** (e - 2) is not finite
    x: Tensor = read_saved(node, "self")
    exponent = read_saved(node, "exponent")
    if exponent in (0, 1):
        return torch.zeros_like(slope)
    if exponent == 2:
        return torch.full_like(slope, 2)
    bent: Tensor = exponent * (exponent - 1) * x.pow(exponent - 2)
    return bent


def _exponential(node: Any, slope: Tensor) -> Tensor:
    # b ** x with a number b: f'' = ln(b) f'
    return slope * torch.as_tensor(read_saved(node, "self"), dtype=slope.dtype, device=slope.device).log()


def _polygamma(node: Any, slope: Tensor) -> Tensor:
    return torch.polygamma(read_saved(node, "n") + 2, read_saved(node, "self"))


def _xlogy(node: Any, slope: Tensor) -> Tensor:
    under: Tensor = read_saved(node, "other")
    return -slope / under


LINEAR = elementwise(piecewise_constant)

RULES = {
    # y saved
    "TanhBackward0": of_result(lambda y, slope: -2 * y * slope),
    "SigmoidBackward0": of_result(lambda y, slope: slope * (1 - 2 * y)),
    "ExpBackward0": of_result(lambda y, slope: y),
    "Exp2Backward0": of_result(lambda y, slope: slope * math.log(2)),
    "Expm1Backward0": of_result(lambda y, slope: slope),
    "SqrtBackward0": of_result(lambda y, slope: -2 * slope**3),
    "RsqrtBackward0": of_result(lambda y, slope: 0.75 * y**5),
    "ReciprocalBackward0": of_result(lambda y, slope: 2 * y**3),
    "TanBackward0": of_result(lambda y, slope: 2 * y * slope),
    "SpecialNdtriBackward0": of_result(lambda y, slope: y * slope**2),
    # x saved
    "LogBackward0": of_input(lambda x, slope: -(slope**2)),
    "Log2Backward0": of_input(lambda x, slope: -math.log(2) * slope**2),
    "Log10Backward0": of_input(lambda x, slope: -math.log(10) * slope**2),
    "Log1PBackward0": of_input(lambda x, slope: -(slope**2)),
    "SinBackward0": of_input(lambda x, slope: -x.sin()),
    "CosBackward0": of_input(lambda x, slope: -x.cos()),
    "AsinBackward0": of_input(lambda x, slope: x * slope**3),
    "AcosBackward0": of_input(lambda x, slope: x * slope**3),
    "AtanBackward0": of_input(lambda x, slope: -2 * x * slope**2),
    "SinhBackward0": of_input(lambda x, slope: x.sinh()),
    "CoshBackward0": of_input(lambda x, slope: x.cosh()),
    "AsinhBackward0": of_input(lambda x, slope: -x * slope**3),
    "AcoshBackward0": of_input(lambda x, slope: -x * slope**3),
    "AtanhBackward0": of_input(lambda x, slope: 2 * x * slope**2),
    "ErfBackward0": of_input(lambda x, slope: -2 * x * slope),
    "ErfcBackward0": of_input(lambda x, slope: -2 * x * slope),
    "ErfinvBackward0": of_input(lambda x, slope: 2 * x.erfinv() * slope**2),
    "LgammaBackward0": of_input(lambda x, slope: torch.polygamma(1, x)),
    "DigammaBackward0": of_input(lambda x, slope: torch.polygamma(2, x)),
    "LogitBackward0": of_input(lambda x, slope: (2 * x - 1) * slope**2),
    "SpecialEntrBackward0": of_input(lambda x, slope: -1 / x),
    "SpecialErfcxBackward0": pointwise(
        lambda node, slope: 2 * (read_saved(node, "result") + read_saved(node, "self") * slope)
    ),
    "SpecialLogNdtrBackward0": of_input(lambda x, slope: -slope * (x + slope)),
    "PolygammaBackward0": pointwise(_polygamma),
    "PowBackward0": pointwise(_power),
    "PowBackward2": pointwise(_exponential),
    "XlogyBackward1": pointwise(_xlogy),
    # linear
    "NegBackward0": elementwise(lambda step: lambda place: -1),
    "Deg2RadBackward0": LINEAR,
    "Rad2DegBackward0": LINEAR,
    "XlogyBackward2": LINEAR,
    "SincBackward0": Rule(same_place, spread=joined),
}
