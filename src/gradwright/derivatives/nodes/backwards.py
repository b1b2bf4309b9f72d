"""Backwards that were recorded themselves: what ``torch.autograd.grad(..., create_graph=True)`` leaves in a graph.

The backward of y = f(x) is an operation entry by entry of the cotangent g and of x (or of y): g f'(x). An equation that
holds derivatives (du/dx of a network) goes through these nodes.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor

from gradwright.derivatives.graph.way import Step
from gradwright.derivatives.nodes.elementwise import Factor, by_backward, elementwise, piecewise_constant
from gradwright.derivatives.nodes.rule import Rule
from gradwright.ground.torch_versions.nodes import read_saved

#: From a step and f'(x): d2/dg dx = f''(x), and d2/dx2 = g f'''(x), None where it is zero.
Bends = Callable[[Step, Tensor], tuple[Tensor, Tensor | None]]


def recorded_backward(bends: Bends) -> Rule:
    """The rule of g f'(x)."""

    def curvatures(step: Step, slope: Callable[[int], Factor]) -> Callable[[int, int], Factor | None]:
        def curvature(i: int, j: int) -> Factor | None:
            mixed, twice = bends(step, torch.as_tensor(slope(0)))
            return None if j == 0 else mixed if i == 0 else twice

        return curvature

    return elementwise(by_backward, curvatures)


def _tanh(step: Step, slope: Tensor) -> tuple[Tensor, Tensor]:
    # of g and the result r: g (1 - r^2)
    result: Tensor = read_saved(step.node, "output")
    cotangent: Tensor = read_saved(step.node, "grad_output")
    return -2 * result, -2 * cotangent


def _sigmoid(step: Step, slope: Tensor) -> tuple[Tensor, Tensor]:
    # of g and the result r: g r (1 - r)
    result: Tensor = read_saved(step.node, "output")
    cotangent: Tensor = read_saved(step.node, "grad_output")
    return 1 - 2 * result, -2 * cotangent


def _softplus(step: Step, slope: Tensor) -> tuple[Tensor, Tensor]:
    # f' = s = sigmoid(b x), and 1 beyond the threshold: s' = b s (1 - s)
    beta = read_saved(step.node, "beta")
    bend: Tensor = beta * slope * (1 - slope)
    return bend, read_saved(step.node, "grad_output") * beta * bend * (1 - 2 * slope)


def _log_sigmoid(step: Step, slope: Tensor) -> tuple[Tensor, Tensor]:
    # f' = s = sigmoid(-x): s' = -s (1 - s)
    bend = -slope * (1 - slope)
    return bend, -read_saved(step.node, "grad_output") * bend * (1 - 2 * slope)


def _elu(step: Step, slope: Tensor) -> tuple[Tensor, Tensor | None]:
    # below 0: f' = a i e^(i x), or i (r + a) of the result r; a constant above
    scale: float = read_saved(step.node, "input_scale")
    below: Tensor = read_saved(step.node, "self_or_result") < 0
    if read_saved(step.node, "is_result"):
        return scale * below.to(slope.dtype), None
    bend = torch.where(below, scale * slope, 0)
    return bend, read_saved(step.node, "grad_output") * scale * bend


def _hardswish(step: Step, slope: Tensor) -> tuple[Tensor, None]:
    x: Tensor = read_saved(step.node, "self")
    return ((x > -3) & (x < 3)).to(slope.dtype) / 3, None


def _gelu(step: Step, slope: Tensor) -> tuple[Tensor, Tensor]:
    # f = x Phi(x): f'' = phi(x) (2 - x^2), f''' = phi(x) (x^3 - 4 x)
    x: Tensor = read_saved(step.node, "self")
    density = torch.exp(-0.5 * x.square()) / math.sqrt(2 * math.pi)
    return density * (2 - x.square()), read_saved(step.node, "grad_output") * density * (x**3 - 4 * x)


#: f' is constant in pieces: linear in g, and x has no slope.
OF_A_KINK = elementwise(piecewise_constant)

RULES = {
    "TanhBackwardBackward0": recorded_backward(_tanh),
    "SigmoidBackwardBackward0": recorded_backward(_sigmoid),
    "SoftplusBackwardBackward0": recorded_backward(_softplus),
    "LogSigmoidBackwardBackward0": recorded_backward(_log_sigmoid),
    "EluBackwardBackward0": recorded_backward(_elu),
    "HardswishBackwardBackward0": recorded_backward(_hardswish),
    # the third derivative of the approximation by tanh is left to other methods
    "GeluBackwardBackward0": replace(
        recorded_backward(_gelu),
        pushes=lambda step, order: order == 1 or read_saved(step.node, "approximate") == "none",
    ),
    "ThresholdBackwardBackward0": OF_A_KINK,
    "LeakyReluBackwardBackward0": OF_A_KINK,
    "HardtanhBackwardBackward0": OF_A_KINK,
    "HardshrinkBackwardBackward0": OF_A_KINK,
    "SoftshrinkBackwardBackward0": OF_A_KINK,
}
