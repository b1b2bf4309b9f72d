"""Means for operations entry by entry: y = f(x_0, ..., x_n), each x_i broadcast to y.

With s_i = df/dx_i and c_ij = d2f/dx_i dx_j, for each direction (a prime is a derivative along it):
    y'  = sum_i s_i x_i'
    y'' = sum_i s_i x_i'' + sum_ij c_ij x_i' x_j'
Each entry of y hangs on one entry of each input, so samples stay apart wherever the batch axis was not broadcast.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import combinations_with_replacement
from typing import TypeAlias

import torch
from torch import Tensor

from gradwright.derivatives.graph.way import Step
from gradwright.derivatives.nodes.reach import joined_reach
from gradwright.derivatives.nodes.rule import Jet, Place, Pushes, Rule, aligned
from gradwright.ground.torch_versions.nodes import output_metadata

#: A factor of a product: numbers are kept as such, so that a 1 costs nothing.
Factor: TypeAlias = Tensor | complex

#: From a step: s_i by the place i of an input.  Asked only for inputs that lead to the target.
Slopes: TypeAlias = Callable[[Step], Callable[[int], Factor]]

#: From a step and its s: c_ij for i <= j, None where it is zero everywhere.
Curvatures: TypeAlias = Callable[[Step, Callable[[int], Factor]], Callable[[int, int], Factor | None]]


def same_place(step: Step, place: Place, number: int) -> Sequence[Place | None]:
    """Where the batch lies in each input of an operation entry by entry; None for one that was broadcast over it."""
    return [aligned(step, place, into.shape, number) if into.leads else None for into in step.inputs]


def elementwise(slopes: Slopes, curvatures: Curvatures | None = None, *, pushes: Pushes | None = None) -> Rule:
    """The rule of an operation entry by entry; without ``curvatures`` it is linear, or linear in pieces."""

    def push(step: Step, jets: Sequence[Jet | None], order: int) -> Mapping[int, Jet]:
        shape, slope = step.shape(), slopes(step)
        known = [(place, lifted(jet, shape)) for place, jet in enumerate(jets) if jet is not None]
        by = {place: slope(place) for place, _ in known}
        first = total([times(by[place], jet.first) for place, jet in known])
        bent: list[Tensor] = []
        if order == 2:
            bent += [times(by[place], jet.second) for place, jet in known if jet.second is not None]
            if curvatures is not None:
                bent += _bent(curvatures(step, slope), known)
        second = total(bent).expand(shape) if bent else None
        return {0: Jet(first.expand(-1, *shape), second)}

    return Rule(same_place, push, joined, pushes=pushes)


def joined(step: Step, reach: Sequence[Tensor | None]) -> Mapping[int, Tensor]:
    """Whatever reaches an entry of an input reaches the entry of the output that it makes."""
    return {0: joined_reach(reach, step.shape())}


def _bent(curvature: Callable[[int, int], Factor | None], known: Sequence[tuple[int, Jet]]) -> Iterator[Tensor]:
    """The terms c_ij x_i' x_j', summed over directions; those with i != j stand twice in the sum."""
    for (i, one), (j, other) in combinations_with_replacement(known, 2):
        factor = curvature(i, j)
        if factor is None:
            continue
        if i == j:
            yield times(factor, distinct(one.first).square().sum(0))
        else:
            yield times(factor, 2 * (one.first * other.first).sum(0))


def distinct(first: Tensor) -> Tensor:
    """Directions that are the same along an axis (expanded over the batch, as seeds are): once, with size 1 there."""
    for axis in range(1, first.ndim):
        if first.stride(axis) == 0 and first.shape[axis] > 1:
            first = first.narrow(axis, 0, 1)
    return first


def lifted(jet: Jet, shape: torch.Size) -> Jet:
    """A jet whose ``first`` broadcasts to [P, *shape]: new axes stand behind the directions, not before."""
    missing = len(shape) + 1 - jet.first.ndim
    if missing <= 0:
        return jet
    return Jet(jet.first.reshape(len(jet.first), *(1,) * missing, *jet.first.shape[1:]), jet.second)


def times(factor: Factor, tensor: Tensor) -> Tensor:
    """Their product; a factor of 1 or -1 that is a plain number costs no multiplication."""
    if isinstance(factor, Tensor):
        return factor * tensor
    if factor == 1:
        return tensor
    return -tensor if factor == -1 else tensor * factor


def total(terms: Sequence[Tensor]) -> Tensor:
    """The sum of at least one tensor."""
    made = terms[0]
    for term in terms[1:]:
        made = made + term
    return made


def ones(step: Step) -> Tensor:
    """A cotangent of ones for the step's output; takes no memory."""
    seen = output_metadata(step.node)[0]
    return torch.ones((), dtype=seen.dtype, device=seen.device).expand(step.shape())


def by_backward(step: Step) -> Callable[[int], Factor]:
    """The slopes as the node's own backward has them, kinks and ties included: what it makes of a cotangent of ones.

    For operations entry by entry whose inputs are real, or that are holomorphic: their backward multiplies by the
    conjugate of the slope. Calling a node reads its saved tensors, attached, and runs no hook; the graph stays.

    >>> from types import SimpleNamespace
    >>> y = torch.tensor([-1.0, 2.0], requires_grad=True).relu()
    >>> by_backward(SimpleNamespace(node=y.grad_fn, shape=lambda: y.shape))(0).tolist()
    [0.0, 1.0]
    """
    made = step.node(ones(step))
    slopes: Sequence[Tensor | None] = made if isinstance(made, tuple) else (made,)

    def slope(place: int) -> Factor:
        found = slopes[place]
        return 0 if found is None else found.conj() if found.is_complex() else found

    return slope


def piecewise_constant(step: Step) -> Callable[[int], Factor]:
    """``by_backward`` of what is linear, or linear in pieces: no graph is made of slopes that hang on nothing."""
    with torch.no_grad():
        return by_backward(step)


def one_field(step: Step, order: int = 1) -> bool:
    """Inputs and output are all real or all complex: where ``by_backward`` tells the slopes."""
    complex_out = output_metadata(step.node)[0].dtype.is_complex
    return all(output_metadata(into.node)[into.number].dtype.is_complex == complex_out for _, into in step.leading)


def real(step: Step, order: int = 1) -> bool:
    """No input or output is complex: for pushes that are written for real numbers alone."""
    return one_field(step) and not output_metadata(step.node)[0].dtype.is_complex
