"""Operations that hand on an entry of one of their inputs: where, maximum, masked_fill, copies and casts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import torch
from torch import Tensor

from gradwright.derivatives.graph.way import Step
from gradwright.derivatives.nodes.elementwise import (
    elementwise,
    joined,
    lifted,
    one_field,
    piecewise_constant,
    same_place,
    total,
)
from gradwright.derivatives.nodes.rule import Jet, Rule
from gradwright.ground.torch_versions.nodes import output_metadata, read_saved


def _chosen(pick: Callable[[Step, int, Tensor], Tensor]) -> Rule:
    """Each entry comes from one of the inputs: ``pick`` sets those to 0 that the input at ``place`` did not give.

    Not a product with a mask: where a value was not chosen, its derivative may be infinite, and 0 * inf is not 0.
    """

    def push(step: Step, jets: Sequence[Jet | None], order: int) -> Mapping[int, Jet]:
        shape = step.shape()
        known = [(place, lifted(jet, shape)) for place, jet in enumerate(jets) if jet is not None]
        first = total([pick(step, place, jet.first) for place, jet in known])
        bent = [pick(step, place, jet.second) for place, jet in known if jet.second is not None]
        return {0: Jet(first.expand(-1, *shape), total(bent).expand(shape) if bent else None)}

    return Rule(same_place, push, joined)


def _where(step: Step, place: int, tensor: Tensor) -> Tensor:
    condition, none = read_saved(step.node, "condition"), tensor.new_zeros(())
    return torch.where(condition, none, tensor) if place else torch.where(condition, tensor, none)


def _masked_fill(step: Step, place: int, tensor: Tensor) -> Tensor:
    mask, none = read_saved(step.node, "mask"), tensor.new_zeros(())
    return torch.where(mask, tensor, none) if place else torch.where(mask, none, tensor)


def _copied(step: Step, place: int, tensor: Tensor) -> Tensor:
    # x.copy_(y): nothing is left of x
    return _cast(step, tensor) if place else tensor.new_zeros(()).expand(tensor.shape)


def _cast(step: Step, tensor: Tensor) -> Tensor:
    seen = output_metadata(step.node)[0]
    kept = tensor.real if tensor.is_complex() and not seen.dtype.is_complex else tensor
    return kept.to(seen.device, seen.dtype)


def _cast_push(step: Step, jets: Sequence[Jet | None], order: int) -> Mapping[int, Jet]:
    (jet,) = (jet for jet in jets if jet is not None)
    return {0: Jet(_cast(step, jet.first), None if jet.second is None else _cast(step, jet.second))}


AS_IT_IS = elementwise(lambda step: lambda place: 1)

#: Linear in pieces; at a tie the backward shares out, and so do these slopes.
SHARED_OUT = elementwise(piecewise_constant, pushes=one_field)

RULES = {
    "MaximumBackward0": SHARED_OUT,
    "MinimumBackward0": SHARED_OUT,
    "FmaxBackward0": SHARED_OUT,
    "FminBackward0": SHARED_OUT,
    "ClampBackward0": SHARED_OUT,
    "ClampMaxBackward1": SHARED_OUT,
    "ClampMinBackward1": SHARED_OUT,
    "WhereBackward0": _chosen(_where),
    "MaskedFillBackward0": _chosen(_masked_fill),
    "MaskedFillBackward1": _chosen(_masked_fill),
    "CopyBackwards": _chosen(_copied),
    "FillBackward1": _chosen(_copied),
    "FillBackward3": _chosen(_copied),
    "CloneBackward0": AS_IT_IS,
    "AliasBackward0": AS_IT_IS,
    "ToCopyBackward0": Rule(same_place, _cast_push, joined),
    "LiftFreshBackward0": AS_IT_IS,
}
