"""Sums, products, quotients, powers: several inputs, entry by entry, each broadcast to the result.

A node saves what its backward needs, so the slope of an input that leads to the target is always at hand; what only
the others would need may be None (``_saved_self`` of x * w where w asks for no gradient).
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from gradwright.derivatives.graph.way import Step
from gradwright.derivatives.nodes.elementwise import (
    Factor,
    by_backward,
    elementwise,
    one_field,
    piecewise_constant,
)
from gradwright.derivatives.nodes.rule import Rule
from gradwright.ground.torch_versions.nodes import read_saved

Slope = Callable[[int], Factor]
Curvature = Callable[[int, int], Factor | None]


def constants(*factors: Callable[[Step], Factor]) -> Rule:
    """y = sum_i a_i x_i with numbers a_i, read from the node."""
    return elementwise(lambda step: lambda place: factors[place](step))


def _one(step: Step) -> Factor:
    return 1


def _alpha(step: Step) -> Factor:
    return _number(read_saved(step.node, "alpha"))


def _minus_alpha(step: Step) -> Factor:
    return -_number(read_saved(step.node, "alpha"))


def _number(value: Factor) -> Factor:
    return value.item() if isinstance(value, Tensor) else value


# NOTE [A saved number]: x * 2 saves the 2 as a tensor without axes, in double precision. Taken as a number it promotes
# no dtype and needs no device. Where it asks for a gradient (a learned scale), it stays the tensor it is.
def _saved(value: Factor) -> Factor:
    if isinstance(value, Tensor) and value.ndim == 0 and not value.requires_grad and value.device.type == "cpu":
        return value.item()
    return value


def _mul(step: Step) -> Slope:
    return lambda place: _saved(read_saved(step.node, "self") if place else read_saved(step.node, "other"))


def _mul_bend(step: Step, slope: Slope) -> Curvature:
    return lambda i, j: None if i == j else 1


def _rounds(step: Step) -> bool:
    return read_saved(step.node, "rounding_mode", None) is not None


def _div(step: Step) -> Slope:
    def slope(place: int) -> Factor:
        if _rounds(step):
            return 0
        under: Tensor = read_saved(step.node, "other")
        return 1 / under if place == 0 else -read_saved(step.node, "self") / under**2

    return slope


def _div_bend(step: Step, slope: Slope) -> Curvature:
    def curvature(i: int, j: int) -> Factor | None:
        if j == 0 or _rounds(step):
            return None
        under: Tensor = read_saved(step.node, "other")
        return -1 / under**2 if i == 0 else 2 * read_saved(step.node, "self") / under**3

    return curvature


def _pow_bend(step: Step, slope: Slope) -> Curvature:
    def curvature(i: int, j: int) -> Factor:
        x: Tensor = read_saved(step.node, "self")
        e: Tensor = read_saved(step.node, "exponent")
        y: Tensor = read_saved(step.node, "result")
        if j == 0:  # e (e - 1) x ** (e - 2), and 0 for e = 0 or 1 whatever x is
            flat = (e == 0) | (e == 1)
            return torch.where(flat, 0, e * (e - 1) * x ** torch.where(flat, 2, e - 2))
        log = torch.where(x == 0, 0, x.log())  # 0 ** e has no slope in e, as torch has it
        if i == 1:
            return y * log**2
        flat = e == 0  # x ** (e - 1) (1 + e ln x)
        return torch.where(flat, 1 / x, x ** torch.where(flat, 1, e - 1) * (1 + e * log))

    return curvature


def _lerp_number(step: Step) -> Slope:
    weight = read_saved(step.node, "weight")
    return lambda place: weight if place else 1 - weight


def _lerp(step: Step) -> Slope:
    node = step.node
    return lambda place: (
        1 - read_saved(node, "weight")
        if place == 0
        else read_saved(node, "weight")
        if place == 1
        else read_saved(node, "end") - read_saved(node, "self")
    )


def _lerp_bend(step: Step, slope: Slope) -> Curvature:
    return lambda i, j: {(0, 2): -1, (1, 2): 1}.get((i, j))


def _addcmul(step: Step) -> Slope:
    node = step.node
    return lambda place: (
        1
        if place == 0
        else read_saved(node, "value") * (read_saved(node, "tensor2") if place == 1 else read_saved(node, "tensor1"))
    )


def _addcmul_bend(step: Step, slope: Slope) -> Curvature:
    return lambda i, j: read_saved(step.node, "value") if (i, j) == (1, 2) else None


def _addcdiv(step: Step) -> Slope:
    def slope(place: int) -> Factor:
        if place == 0:
            return 1
        value: complex = read_saved(step.node, "value")
        under: Tensor = read_saved(step.node, "tensor2")
        return value / under if place == 1 else -value * read_saved(step.node, "tensor1") / under**2

    return slope


def _addcdiv_bend(step: Step, slope: Slope) -> Curvature:
    def curvature(i: int, j: int) -> Factor | None:
        if i == 0 or j == 1:
            return None
        value: complex = read_saved(step.node, "value")
        under: Tensor = read_saved(step.node, "tensor2")
        return -value / under**2 if i == 1 else 2 * value * read_saved(step.node, "tensor1") / under**3

    return curvature


def _atan2_bend(step: Step, slope: Slope) -> Curvature:
    def curvature(i: int, j: int) -> Factor:
        y: Tensor = read_saved(step.node, "self")
        x: Tensor = read_saved(step.node, "other")
        square = (x.square() + y.square()).square()
        if i != j:
            return (y.square() - x.square()) / square
        return (2 if i else -2) * x * y / square

    return curvature


def _hypot_bend(step: Step, slope: Slope) -> Curvature:
    def curvature(i: int, j: int) -> Factor:
        a: Tensor = read_saved(step.node, "self")
        b: Tensor = read_saved(step.node, "other")
        cube: Tensor = read_saved(step.node, "result") ** 3
        return -a * b / cube if i != j else (a if i else b).square() / cube

    return curvature


def _logaddexp_bend(base: float) -> Callable[[Step, Slope], Curvature]:
    def bend(step: Step, slope: Slope) -> Curvature:
        def curvature(i: int, j: int) -> Factor:
            share = torch.sigmoid(math.log(base) * (read_saved(step.node, "self") - read_saved(step.node, "other")))
            return (math.log(base) if i == j else -math.log(base)) * share * (1 - share)

        return curvature

    return bend


def _xlogy_bend(step: Step, slope: Slope) -> Curvature:
    def curvature(i: int, j: int) -> Factor | None:
        under: Tensor = read_saved(step.node, "other")
        if i != j:
            return 1 / under
        return -read_saved(step.node, "self") / under**2 if i else None

    return curvature


def _prelu_bend(step: Step, slope: Slope) -> Curvature:
    return lambda i, j: (
        None if i == j else (read_saved(step.node, "self") < 0).to(read_saved(step.node, "weight").dtype)
    )


LINEAR = elementwise(piecewise_constant, pushes=one_field)

RULES = {
    "AddBackward0": constants(_one, _alpha),
    "AddBackward1": constants(_one),
    "SubBackward0": constants(_one, _minus_alpha),
    "SubBackward1": constants(_one),
    "RsubBackward0": constants(_minus_alpha, _one),
    "RsubBackward1": constants(_minus_alpha),
    "MulBackward0": elementwise(_mul, _mul_bend),
    "MulBackward1": LINEAR,
    "DivBackward0": elementwise(_div, _div_bend),
    "DivBackward1": LINEAR,
    "DivBackward2": elementwise(_div, _div_bend),
    "DivBackward3": LINEAR,
    "PowBackward1": elementwise(by_backward, _pow_bend, pushes=one_field),
    "LerpBackward0": elementwise(_lerp_number),
    "LerpBackward1": elementwise(_lerp, _lerp_bend),
    "AddcmulBackward0": elementwise(_addcmul, _addcmul_bend),
    "AddcdivBackward0": elementwise(_addcdiv, _addcdiv_bend),
    "Atan2Backward0": elementwise(by_backward, _atan2_bend),
    "HypotBackward0": elementwise(by_backward, _hypot_bend),
    "LogaddexpBackward0": elementwise(by_backward, _logaddexp_bend(math.e), pushes=one_field),
    "Logaddexp2Backward0": elementwise(by_backward, _logaddexp_bend(2)),
    "XlogyBackward0": elementwise(by_backward, _xlogy_bend),
    "PreluKernelBackward0": elementwise(by_backward, _prelu_bend),
    "RemainderBackward1": LINEAR,
    "FmodBackward1": LINEAR,
    "CopysignBackward0": LINEAR,
}
