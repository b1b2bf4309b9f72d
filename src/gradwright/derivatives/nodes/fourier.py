"""Fourier transforms: linear along some axes, the same for every index along the others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from torch import Tensor

from gradwright.derivatives.graph.way import Step
from gradwright.derivatives.nodes.algebra import Linear, linear_push, wrapped
from gradwright.derivatives.nodes.reach import summed_reach
from gradwright.derivatives.nodes.rule import Rule
from gradwright.derivatives.nodes.shapes import along
from gradwright.ground.torch_versions.nodes import read_saved
from gradwright.ground.torch_versions.tensors import fft_c2c, fft_c2r, fft_r2c


def _axes(step: Step) -> list[int]:
    return [wrapped(dim, len(step.shape())) for dim in read_saved(step.node, "dim")]


def _untransformed(step: Step, axis: int) -> int | None:
    return None if axis in _axes(step) else axis


def _behind(step: Step) -> list[int]:
    return [axis + 1 for axis in _axes(step)]


def _c2c(step: Step, stack: Tensor) -> Tensor:
    made: Tensor = fft_c2c(
        stack, _behind(step), read_saved(step.node, "normalization"), read_saved(step.node, "forward")
    )
    return made


def _r2c(step: Step, stack: Tensor) -> Tensor:
    made: Tensor = fft_r2c(
        stack, _behind(step), read_saved(step.node, "normalization"), read_saved(step.node, "onesided")
    )
    return made


def _c2r(step: Step, stack: Tensor) -> Tensor:
    size = step.shape()[_axes(step)[-1]]
    made: Tensor = fft_c2r(stack, _behind(step), read_saved(step.node, "normalization"), size)
    return made


def _spread(step: Step, reach: Sequence[Tensor | None]) -> Mapping[int, Tensor]:
    (into,) = (into for into in reach if into is not None)
    return {0: summed_reach(into, _axes(step), keepdim=True).expand(len(into), *step.shape())}


def _transform(apply: Linear) -> Rule:
    return Rule(along(_untransformed), linear_push(apply), _spread)


RULES = {
    "FftC2CBackward0": _transform(_c2c),
    "FftR2CBackward0": _transform(_r2c),
    "FftC2RBackward0": _transform(_c2r),
}
