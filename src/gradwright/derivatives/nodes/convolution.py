"""Convolutions, transposed ones among them, of any number of axes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from gradwright.derivatives.graph.way import Step
from gradwright.derivatives.nodes.algebra import carried, moved, the_jet
from gradwright.derivatives.nodes.rule import Jet, Place, Rule
from gradwright.ground.torch_versions.nodes import read_saved


def _batch(step: Step, place: Place, number: int) -> Sequence[Place | None]:
    node = step.node
    if place.axis == 0:
        return [place, None, None]
    if place.axis != 1:
        return [None, None, None]  # along an axis that the kernel moves over
    # along the channels, where groups keep the samples apart: each sample has whole groups (a weight per sample, as in
    # modulated convolutions, is done so)
    out_each, in_each = step.shape()[1] // read_saved(node, "groups"), _in_channels(node) // read_saved(node, "groups")
    if place.inner % out_each:
        return [None, None, None]
    into = Place(1, place.outer, place.inner // out_each * in_each)
    weight = Place(0, place.outer, into.inner if read_saved(node, "transposed") else place.inner)
    return [into, weight, moved(place, 0)]


def _in_channels(node: Any) -> int:
    weight = read_saved(node, "weight").shape
    return int(weight[0] if read_saved(node, "transposed") else weight[1] * read_saved(node, "groups"))


def _convolved(node: Any, x: Tensor, weight: Tensor, groups: int) -> Tensor:
    return torch.ops.aten.convolution(  # type: ignore[no-any-return]
        x,
        weight,
        None,
        read_saved(node, "stride"),
        read_saved(node, "padding"),
        read_saved(node, "dilation"),
        read_saved(node, "transposed"),
        read_saved(node, "output_padding"),
        groups,
    )


def _push(step: Step, jets: Sequence[Jet | None], order: int) -> Mapping[int, Jet]:
    node = step.node
    weight, groups = read_saved(node, "weight"), read_saved(node, "groups")

    def apply(stack: Tensor) -> Tensor:
        samples = stack.shape[1]
        if samples > 1 and stack.stride(1) == 0:  # one direction for all samples: convolved once
            stack = stack.narrow(1, 0, 1)
        made = _convolved(node, stack.flatten(0, 1), weight, groups)
        made = made.reshape(*stack.shape[:2], *made.shape[1:])
        return made if made.shape[1] == samples else made.expand(-1, samples, *made.shape[2:])

    return {0: carried(the_jet(jets), apply)}


def _only_input(step: Step, order: int) -> bool:
    return not any(place for place, _ in step.leading)


def _spread(step: Step, reach: Sequence[Tensor | None]) -> Mapping[int, Tensor]:
    # a group's channels reach all of the group's: one kernel of ones over their union
    node, shape = step.node, step.shape()
    into = reach[0]
    if into is None or any(other is not None for other in reach[1:]) or into.shape[2] != _in_channels(node):
        return {}
    directions, samples, groups = len(into), into.shape[1], read_saved(node, "groups")
    grouped = into.reshape(directions, samples, groups, -1, *into.shape[3:])
    union = grouped.any(3).flatten(0, 2).unsqueeze(1)
    kernel = torch.ones((1, 1, *read_saved(node, "weight").shape[2:]), device=into.device)
    # 0.5 and not 0: sums of ones are whole, and a fast algorithm may leave a rounding where the sum is none
    made = _convolved(node, union.to(kernel.dtype), kernel, 1) > 0.5
    each = made.reshape(directions, samples, groups, 1, *shape[2:])
    return {0: each.expand(-1, -1, -1, shape[1] // groups, *shape[2:]).flatten(2, 3)}


RULES = {
    "ConvolutionBackward0": Rule(_batch, _push, _spread, pushes=_only_input),
}
