"""How much work one direction is on its way through the graph, counted from names and shapes of the recorded nodes."""

from __future__ import annotations

import math
from dataclasses import dataclass

from gradwright.derivatives.graph.request import Request
from gradwright.derivatives.graph.way import Step
from gradwright.ground.torch_versions.nodes import read_saved

#: Nodes that only look at memory another way: no bytes move.
VIEWS = frozenset(
    (
        *("ViewBackward0", "UnsafeViewBackward0", "ReshapeAliasBackward0", "AsStridedBackward0", "AliasBackward0"),
        *("TBackward0", "TransposeBackward0", "PermuteBackward0", "ExpandBackward0", "DiagonalBackward0"),
        *("UnsqueezeBackward0", "SqueezeBackward0", "SqueezeBackward1", "SelectBackward0", "SliceBackward0"),
        *("UnbindBackward0", "SplitBackward0", "SplitWithSizesBackward0"),
    )
)


@dataclass(slots=True)
class Work:
    """Of one direction, for all samples: the same forward and backward, but for the order.

    ``steps``: nodes on the way.  ``flops``: of products of matrices and convolutions.  ``bytes``: read and written.
    ``widest``: bytes of the largest value on the way.  ``saved``: bytes of all values together, which is what a
    direction keeps alive when it makes a graph.
    """

    steps: int
    flops: float
    bytes: float
    widest: float
    saved: float


def work_of(request: Request) -> Work:
    """Cost: about two microseconds a step; no tensor is touched."""
    flops, values, widest = 0.0, 0, max(request.output.numel(), math.prod(request.target.shape))
    for step in request.way.steps:
        name = step.name
        if name in VIEWS:
            continue
        size = math.prod(step.shape())
        values += size
        if size > widest:
            widest = size
        if name in PRODUCTS:
            flops += PRODUCTS[name](step, size)
    item = request.output.element_size()
    # the cotangent read and its result written, and one saved value read
    return Work(len(request.way.steps), flops, 3.0 * item * values, float(item * widest), float(item * values))


def _product(step: Step, size: int) -> float:
    """out = a @ b, or bias + a @ b: a shares its last axis with the last but one of b, which is summed over."""
    first = len(step.inputs) - 2
    return sum(
        2.0 * size * (into.shape[-1] if place == first or len(into.shape) < 2 else into.shape[-2])
        for place, into in step.leading
        if place >= first
    )


def _convolution(step: Step, size: int) -> float:
    weight = step.inputs[1]
    shape = weight.shape if weight.node is not None else read_saved(step.node, "weight").shape
    return 2.0 * size * math.prod(shape[1:])


def _attention(step: Step, size: int) -> float:
    query = step.inputs[0]
    length = query.shape[-2] if query.leads else step.shape()[-2]
    return 8.0 * size * length


PRODUCTS = {
    **dict.fromkeys(("AddmmBackward0", "MmBackward0", "BmmBackward0", "BaddbmmBackward0", "MvBackward0"), _product),
    **dict.fromkeys(("AddmvBackward0", "AddbmmBackward0", "DotBackward0"), _product),
    "ConvolutionBackward0": _convolution,
    "ScaledDotProductFlashAttentionForCpuBackward0": _attention,
    "ScaledDotProductEfficientAttentionBackward0": _attention,
    "ScaledDotProductFlashAttentionBackward0": _attention,
}
