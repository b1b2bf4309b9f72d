"""Weight and bias of convolutions, of any dimension, transposed or not."""

from __future__ import annotations

import torch
from torch import Tensor

from gradwright.derivatives.graph.way import Step
from gradwright.derivatives.nodes.rule import Place
from gradwright.derivatives.per_sample.boundary.rule import Boundary, Make, apart
from gradwright.ground.torch_versions.nodes import read_saved


def _convolution(step: Step, index: int, place: Place, samples: int) -> Make | None:
    """One convolution with B times as many groups: each row of the input in a group of its own, with its own weight.

    The gradient of those weights is every row's gradient (Goodfellow 2015, "Efficient per-example gradient
    computations", carried to convolutions by Rochette et al. 2019, arXiv 1912.06015); torch's own kernel for it knows
    every stride, padding, dilation and transposition, and has a derivative.
    """
    if place.axis != 0 or index not in (1, 2):
        return None
    node = step.node

    def bias(g: Tensor) -> Tensor:
        spread = g.flatten(2).sum(2) if g.ndim > 2 else g
        return apart(spread, place, samples).sum(1)

    def weight(g: Tensor) -> Tensor:
        x, shape = read_saved(node, "input"), step.inputs[1].shape
        count = g.shape[0]
        # only the shape of the weight counts
        repeated = g.new_zeros(()).expand(count * shape[0], *shape[1:])
        (made,) = torch.ops.aten.convolution_backward(
            g.reshape(1, -1, *g.shape[2:]), x.reshape(1, -1, *x.shape[2:]), repeated, None,
            read_saved(node, "stride"), read_saved(node, "padding"), read_saved(node, "dilation"),
            read_saved(node, "transposed"), read_saved(node, "output_padding"), read_saved(node, "groups") * count,
            (False, True, False),
        )[1:2]  # fmt: skip
        made = made.reshape(count, *shape)
        return made if place.plain else apart(made, place, samples).sum(1)

    return weight if index == 1 else bias


BOUNDARIES: dict[str, Boundary] = {"ConvolutionBackward0": _convolution}
