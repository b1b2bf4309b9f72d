"""One number in, one number out, with kinks or steps: relu, clamp, abs, gelu's kin, round, dropout, ...

At a kink the slope is the one torch's backward takes; a curvature holds beside the kinks.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from gradwright.derivatives.graph.way import Step
from gradwright.derivatives.nodes.elementwise import elementwise, piecewise_constant, same_place
from gradwright.derivatives.nodes.pointwise import of_input, pointwise
from gradwright.derivatives.nodes.rule import Jet, Rule
from gradwright.ground.torch_versions.nodes import read_saved


def _no_slope(step: Step, jets: Sequence[Jet | None], order: int) -> Mapping[int, Jet]:
    (jet,) = (jet for jet in jets if jet is not None)
    return {0: Jet(jet.first.new_zeros(()).expand(len(jet.first), *step.shape()))}


def _no_reach(step: Step, reach: Sequence[Tensor | None]) -> Mapping[int, Tensor]:
    (into,) = (into for into in reach if into is not None)
    return {0: into.new_zeros(()).expand(len(into), *step.shape())}


#: round, floor, sign, ...: constant in pieces, and what a fill leaves of the value before.
FLAT = Rule(same_place, _no_slope, _no_reach)


def _elu(saved: Tensor, slope: Tensor, input_scale: float) -> Tensor:
    # below 0: f = a (e^(i x) - 1), f'' = i f'; x and the result have the same sign; at 0 as autograd has it
    return torch.where(saved < 0, input_scale * slope, torch.zeros_like(slope))


def _gelu(node: Any, slope: Tensor) -> Tensor:
    x: Tensor = read_saved(node, "self")
    if read_saved(node, "approximate") == "none":  # f = x Phi(x), f'' = phi(x) (2 - x^2)
        return (2 - x.square()) * torch.exp(-0.5 * x.square()) / math.sqrt(2 * math.pi)
    scale, cubic = math.sqrt(2 / math.pi), 0.044715  # f = x (1 + tanh u) / 2, u = scale (x + cubic x^3)
    tanh = torch.tanh(scale * (x + cubic * x**3))
    rise, bend = scale * (1 + 3 * cubic * x.square()), 6 * scale * cubic * x
    return (1 - tanh.square()) * (rise + 0.5 * x * (bend - 2 * tanh * rise.square()))


def _silu(x: Tensor, slope: Tensor) -> Tensor:
    # f = x s: f'' = 2 s' + x s''
    gate = torch.sigmoid(x)
    return gate * (1 - gate) * (2 + x * (1 - 2 * gate))


def _mish(x: Tensor, slope: Tensor) -> Tensor:
    # f = x w, w = tanh(softplus(x)): f'' = 2 w' + x w''
    gate = torch.sigmoid(x)
    value = torch.tanh(torch.nn.functional.softplus(x))
    rise = (1 - value.square()) * gate
    bend = rise * (1 - gate) - 2 * value * rise * gate
    return 2 * rise + x * bend


def _hardswish(x: Tensor, slope: Tensor) -> Tensor:
    return ((x > -3) & (x < 3)).to(slope.dtype) / 3


def _hardsigmoid(step: Step) -> Callable[[int], Tensor]:
    x: Tensor = read_saved(step.node, "self")
    return lambda place: ((x > -3) & (x < 3)).to(x.dtype) / 6


KINKED = elementwise(piecewise_constant)

RULES = {
    "ReluBackward0": KINKED,
    "LeakyReluBackward0": KINKED,
    "LeakyReluBackward1": KINKED,
    "ThresholdBackward0": KINKED,
    "ThresholdBackward1": KINKED,
    "HardtanhBackward0": KINKED,
    "HardsigmoidBackward0": elementwise(_hardsigmoid),
    "HardshrinkBackward0": KINKED,
    "SoftshrinkBackward0": KINKED,
    "RreluWithNoiseBackward0": KINKED,
    "ClampBackward1": KINKED,
    "ClampMaxBackward0": KINKED,
    "ClampMinBackward0": KINKED,
    "NanToNumBackward0": KINKED,
    "NativeDropoutBackward0": KINKED,
    "FracBackward0": KINKED,
    "RemainderBackward0": KINKED,
    "FmodBackward0": KINKED,
    "CopysignBackward1": KINKED,
    "HardswishBackward0": of_input(_hardswish),
    "EluBackward0": pointwise(
        lambda node, slope: _elu(read_saved(node, "self"), slope, read_saved(node, "input_scale"))
    ),
    "EluBackward1": pointwise(
        lambda node, slope: _elu(read_saved(node, "result"), slope, read_saved(node, "input_scale"))
    ),
    "CeluBackward0": pointwise(
        lambda node, slope: _elu(read_saved(node, "self"), slope, 1 / read_saved(node, "alpha"))
    ),
    "CeluBackward1": pointwise(
        lambda node, slope: _elu(read_saved(node, "result"), slope, 1 / read_saved(node, "alpha"))
    ),
    "GeluBackward0": pointwise(_gelu),
    "SiluBackward0": of_input(_silu),
    "MishBackward0": of_input(_mish),
    "SoftplusBackward0": pointwise(lambda node, slope: read_saved(node, "beta") * slope * (1 - slope)),
    "LogSigmoidBackward0": pointwise(lambda node, slope: -slope * (1 - slope)),
    "RoundBackward0": FLAT,
    "RoundBackward1": FLAT,
    "FloorBackward0": FLAT,
    "CeilBackward0": FLAT,
    "TruncBackward0": FLAT,
    "SignBackward0": FLAT,
    "ZeroBackward0": FLAT,
    "FillBackward0": FLAT,
    "FillBackward2": FLAT,
}
