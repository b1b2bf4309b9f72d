"""What rules of linear and bilinear steps are made of: saved dims, stacks of tangents, sums and products of jets."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import torch
from torch import Tensor

from gradwright.derivatives.graph.way import Step
from gradwright.derivatives.nodes.rule import Jet, Place, Push, Spread
from gradwright.ground.torch_versions.nodes import output_metadata, read_saved

#: A linear map of a step, for a stack of tangents at once: [Q, *shape of the input] -> [Q, *shape of the output].
Linear: TypeAlias = Callable[[Step, Tensor], Tensor]


def wrapped(dim: int, ndim: int) -> int:
    """A saved dim as an axis, 0 to ndim - 1. Nodes keep what the caller wrote, a negative one as an unsigned number.

    >>> wrapped(18446744073709551615, 3), wrapped(-3, 3), wrapped(1, 3)
    (2, 0, 1)
    """
    return (dim - 2**64 if dim >= 2**63 else dim) % max(ndim, 1)


def saved_axis(step: Step) -> int:
    """The one axis along which a step works, for steps that keep the number of axes."""
    return wrapped(read_saved(step.node, "dim"), len(step.shape()))


def real(step: Step, order: int = 1) -> bool:
    """Whether no leading input is complex: for what is written for real numbers alone."""
    return not any(output_metadata(into.node)[into.number].dtype.is_complex for _, into in step.leading)


def moved(place: Place, axis: int) -> Place:
    """The same batch, along another axis."""
    return Place(axis, place.outer, place.inner)


def the_jet(jets: Sequence[Jet | None]) -> Jet:
    """The jet of the one input that leads."""
    (jet,) = (jet for jet in jets if jet is not None)
    return jet


def the_reach(reach: Sequence[Tensor | None]) -> Tensor:
    """The pattern of the one input that leads."""
    (into,) = (into for into in reach if into is not None)
    return into


def added(*terms: Tensor | None) -> Tensor | None:
    """The sum of those that are there.

    >>> added(None, torch.ones(1), None, torch.ones(1)), added(None)
    (tensor([2.]), None)
    """
    total: Tensor | None = None
    for term in terms:
        total = term if total is None else total if term is None else total + term
    return total


def carried(jet: Jet, apply: Callable[[Tensor], Tensor]) -> Jet:
    """A jet through a linear map of stacks: y' = A x', y'' = A x''."""
    second = None if jet.second is None else apply(jet.second.unsqueeze(0)).squeeze(0)
    return Jet(apply(jet.first), second)


def plus(*jets: Jet | None) -> Jet:
    """The jet of a sum, of those that are there; one at least."""
    there = [jet for jet in jets if jet is not None]
    first = there[0].first
    for jet in there[1:]:
        first = first + jet.first
    return Jet(first, added(*(jet.second for jet in there)))


def scaled(jet: Jet, factor: Any) -> Jet:
    """``factor`` times a jet; nothing is computed for a factor of 1."""
    return jet if factor == 1 else carried(jet, lambda stack: stack * factor)


def broadcast(jet: Jet, shape: torch.Size) -> Jet:
    """The jet of an input that was broadcast to ``shape``."""

    def fill(stack: Tensor) -> Tensor:
        ones = (1,) * (len(shape) - stack.ndim + 1)
        return stack.reshape(len(stack), *ones, *stack.shape[1:]).expand(len(stack), *shape)

    return carried(jet, fill)


def linear_push(apply: Linear) -> Push:
    """The push of a step that is linear in its one input."""

    def push(step: Step, jets: Sequence[Jet | None], order: int) -> Mapping[int, Jet]:
        return {0: carried(the_jet(jets), lambda stack: apply(step, stack))}

    return push


def linear_spread(apply: Linear) -> Spread:
    """The spread of a linear step with no negative coefficient: where it makes more than zero of ones and zeros."""

    def spread(step: Step, reach: Sequence[Tensor | None]) -> Mapping[int, Tensor]:
        return {0: apply(step, the_reach(reach).to(torch.float32)) > 0}

    return spread


def bilinear(
    product: Callable[[Tensor, Tensor], Tensor],
    summed: Callable[[Tensor, Tensor], Tensor],
    factors: tuple[Tensor | None, Tensor | None],
    jets: tuple[Jet | None, Jet | None],
    order: int,
) -> Jet:
    """A jet through y = A x B, linear in each: y' = A' B + A B', y'' = A'' B + A B'' + 2 sum over directions of A' B'.

    ``product``: of a stack and a factor, or of a factor and a stack.
    ``summed``: of two stacks, direction by direction, summed over them.
    A factor is needed only where the other one has a jet; autograd saves no other.
    """
    (left, right), (of_left, of_right) = factors, jets
    made: list[Jet] = []
    if of_left is not None and right is not None:
        made.append(carried(of_left, lambda stack: product(stack, right)))
    if of_right is not None and left is not None:
        made.append(carried(of_right, lambda stack: product(left, stack)))
    whole = plus(*made)
    if order == 2 and of_left is not None and of_right is not None:
        return Jet(whole.first, added(whole.second, 2 * summed(of_left.first, of_right.first)))
    return whole
