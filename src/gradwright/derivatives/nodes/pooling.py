"""Pooling, resizing, and patches of images: linear in their input, plane by plane, or a choice from it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from gradwright.derivatives.graph.way import Step
from gradwright.derivatives.nodes.algebra import linear_push, linear_spread, the_reach
from gradwright.derivatives.nodes.reach import mixed_reach
from gradwright.derivatives.nodes.rule import Place, Rule
from gradwright.ground.torch_versions.nodes import read_saved
from gradwright.ground.torch_versions.tensors import (
    adaptive_avg_pool2d,
    adaptive_avg_pool3d,
    upsample_nearest_exact1d,
    upsample_nearest_exact2d,
    upsample_nearest_exact3d,
)

aten = torch.ops.aten


def _planes(step: Step, stack: Tensor, axes: int, apply: Callable[[Tensor], Tensor]) -> Tensor:
    """Apply to [N, ...] what works on ``axes`` trailing axes: what stands before them is one long N."""
    made = apply(stack.reshape(-1, *stack.shape[-axes:]))
    return made.reshape(len(stack), *step.shape())


def _apart(axes: int) -> Callable[[Step, Place, int], Sequence[Place | None]]:
    """Every axis before the last ``axes`` is only repeated over."""

    def batch(step: Step, place: Place, number: int) -> Sequence[Place | None]:
        return [place if place.axis < len(step.inputs[0].shape) - axes else None]

    return batch


def _average(axes: int) -> Rule:
    pool = {2: aten.avg_pool2d, 3: aten.avg_pool3d}[axes]

    def apply(step: Step, stack: Tensor) -> Tensor:
        node = step.node
        settings = (
            read_saved(node, "kernel_size"),
            read_saved(node, "stride"),
            read_saved(node, "padding"),
            read_saved(node, "ceil_mode"),
            read_saved(node, "count_include_pad"),
        )
        return _planes(step, stack, axes + 1, lambda planes: pool(planes, *settings, _absolute(node)))

    def spread(step: Step, reach: Sequence[Tensor | None]) -> Mapping[int, Tensor]:
        return linear_spread(apply)(step, reach)

    return Rule(_apart(axes), linear_push(apply), spread)


def _absolute(node: Any) -> int | None:
    return None if read_saved(node, "divisor_override") is None else int(read_saved(node, "divisor_override"))


def _adaptive_average(axes: int) -> Rule:
    pool = {2: adaptive_avg_pool2d, 3: adaptive_avg_pool3d}[axes]

    def apply(step: Step, stack: Tensor) -> Tensor:
        return _planes(step, stack, axes + 1, lambda planes: pool(planes, step.shape()[-axes:]))

    return Rule(_apart(axes), linear_push(apply), linear_spread(apply))


def _maximum(axes: int, windowed: bool) -> Rule:
    def apply(step: Step, stack: Tensor) -> Tensor:
        # the saved index counts along the flattened plane
        index = read_saved(step.node, "result1").flatten(-axes)
        chosen = stack.flatten(-axes).gather(-1, index.expand(len(stack), *index.shape))
        return chosen.reshape(len(stack), *step.shape())

    def spread(step: Step, reach: Sequence[Tensor | None]) -> Mapping[int, Tensor]:
        # which entry of the window is chosen differs by sample: any of it may be
        into, node = the_reach(reach), step.node
        if not windowed:
            mixed = mixed_reach(into, range(-axes, 0)).flatten(-axes)[..., :1]
            return {0: mixed.reshape(*mixed.shape[:-1], *(1,) * axes).expand(len(into), *step.shape())}
        pool = {2: torch.nn.functional.max_pool2d, 3: torch.nn.functional.max_pool3d}[axes]
        settings = (
            read_saved(node, "kernel_size"),
            read_saved(node, "stride") or None,
            read_saved(node, "padding"),
            read_saved(node, "dilation"),
            read_saved(node, "ceil_mode"),
        )
        seen = into.to(torch.float32)
        return {0: _planes(step, seen, axes + 1, lambda planes: pool(planes, *settings)) > 0}

    return Rule(_apart(axes), linear_push(apply), spread)


def _resized(resize: Any, names: Sequence[str], axes: int, aligned: bool, positive: bool = True) -> Rule:
    def apply(step: Step, stack: Tensor) -> Tensor:
        node = step.node
        corners = (read_saved(node, "align_corners"),) if aligned else ()
        scales = [read_saved(node, name) for name in names]
        size = read_saved(node, "output_size")
        return _planes(step, stack, axes + 1, lambda planes: resize(planes, size, *corners, *scales))

    return Rule(_apart(axes), linear_push(apply), linear_spread(apply) if positive else None)


def _patches() -> Rule:
    def apply(step: Step, stack: Tensor) -> Tensor:
        return _planes(step, stack, 3, lambda planes: aten.im2col(planes, *_window(step.node)))

    return Rule(_apart(3), linear_push(apply), linear_spread(apply))


def _from_patches() -> Rule:
    def apply(step: Step, stack: Tensor) -> Tensor:
        size = step.shape()[-2:]
        return _planes(step, stack, 2, lambda planes: aten.col2im(planes, size, *_window(step.node)))

    return Rule(_apart(2), linear_push(apply), linear_spread(apply))


def _window(node: Any) -> tuple[Any, ...]:
    return (
        read_saved(node, "kernel_size"),
        read_saved(node, "dilation"),
        read_saved(node, "padding"),
        read_saved(node, "stride"),
    )


_1D, _2D, _3D = ("scales",), ("scales_h", "scales_w"), ("scales_d", "scales_h", "scales_w")

RULES = {
    "AvgPool2DBackward0": _average(2),
    "AvgPool3DBackward0": _average(3),
    "AdaptiveAvgPool2DBackward0": _adaptive_average(2),
    "AdaptiveAvgPool3DBackward0": _adaptive_average(3),
    "MaxPool2DWithIndicesBackward0": _maximum(2, windowed=True),
    "MaxPool3DWithIndicesBackward0": _maximum(3, windowed=True),
    "AdaptiveMaxPool2DBackward0": _maximum(2, windowed=False),
    "AdaptiveMaxPool3DBackward0": _maximum(3, windowed=False),
    "FractionalMaxPool2DBackward0": _maximum(2, windowed=False),
    "UpsampleNearest1DBackward0": _resized(aten.upsample_nearest1d, _1D, 1, False),
    "UpsampleNearest2DBackward0": _resized(aten.upsample_nearest2d, _2D, 2, False),
    "UpsampleNearest3DBackward0": _resized(aten.upsample_nearest3d, _3D, 3, False),
    "UpsampleNearestExact1DBackward0": _resized(upsample_nearest_exact1d, _1D, 1, False),
    "UpsampleNearestExact2DBackward0": _resized(upsample_nearest_exact2d, _2D, 2, False),
    "UpsampleNearestExact3DBackward0": _resized(upsample_nearest_exact3d, _3D, 3, False),
    "UpsampleLinear1DBackward0": _resized(aten.upsample_linear1d, _1D, 1, True),
    "UpsampleBilinear2DBackward0": _resized(aten.upsample_bilinear2d, _2D, 2, True),
    "UpsampleTrilinear3DBackward0": _resized(aten.upsample_trilinear3d, _3D, 3, True),
    # its weights are of both signs, so a pattern carried by sums could cancel
    "UpsampleBicubic2DBackward0": _resized(aten.upsample_bicubic2d, _2D, 2, True, positive=False),
    "Im2ColBackward0": _patches(),
    "Col2ImBackward0": _from_patches(),
}
