"""What a rule says against what is so: whole Jacobians by one-hots, directional derivatives by autograd, in float64."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from unittest.mock import patch

import torch
from torch import Tensor

from gradwright.derivatives.graph.request import read_request
from gradwright.derivatives.graph.target import read_target
from gradwright.derivatives.graph.way import Way, find_way
from gradwright.derivatives.methods import pushed, sparsity
from gradwright.derivatives.methods.pushed import push_jets, why_not_pushed
from gradwright.derivatives.nodes import Rule, rule_of
from gradwright.derivatives.samples import structure
from gradwright.derivatives.samples.structure import examine_structure

Made = Callable[[Tensor], Tensor]


def drawn(*shape: int, low: float = -2.0, high: float = 2.0, dtype: torch.dtype = torch.float64) -> Tensor:
    """Uniform numbers of a generator of our own, the same at every call."""
    generator = torch.Generator().manual_seed(math.prod(shape) + len(shape))
    made = low + (high - low) * torch.rand(shape, generator=generator, dtype=torch.float64)
    if not dtype.is_complex:
        return made.to(dtype)
    return torch.complex(made, low + (high - low) * torch.rand(shape, generator=generator, dtype=torch.float64)).to(
        dtype
    )


def normal(*shape: int, like: Tensor, seed: int = 0) -> Tensor:
    made = torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    if not like.is_complex():
        return made.to(like.dtype)
    imaginary = torch.randn(shape, generator=torch.Generator().manual_seed(seed + 1), dtype=torch.float64)
    return torch.complex(made, imaginary).to(like.dtype)


@dataclass(frozen=True, eq=False)
class Graph:
    """y of z as it was recorded, and what is true of it, found out once: many laws look at one, none changes it.

    What the rules say of it is asked anew each time, since a test may plant another rule.
    """

    y: Tensor
    z: Tensor

    @cached_property
    def way(self) -> Way:
        return find_way(self.y, read_target(self.z))

    @cached_property
    def jacobian(self) -> Tensor:
        return whole_jacobian(self.y, self.z)

    @cached_property
    def attached_jacobian(self) -> Tensor:
        """The same, to be differentiated once more."""
        return whole_jacobian(self.y, self.z, create_graph=True)


def whole_jacobian(y: Tensor, z: Tensor, create_graph: bool = False) -> Tensor:
    """dy / dz, [*y, *z], one backward per entry (and per imaginary part)."""
    rows = []
    entries = torch.view_as_real(y).reshape(-1) if y.is_complex() else y.reshape(-1)
    for entry in entries:
        (grad,) = torch.autograd.grad(entry, z, retain_graph=True, create_graph=create_graph, allow_unused=True)
        rows.append(torch.zeros_like(z) if grad is None else grad)
    stacked = torch.stack(rows)
    if y.is_complex():
        stacked = stacked.reshape(y.numel(), 2, -1).abs().sum(1)
    return stacked.reshape(*y.shape, *z.shape)


def samples_meet(jacobian: Tensor, y_axis: int, z_axis: int, y_dims: int) -> bool:
    """Whether an entry of a sample of y hangs on an entry of another sample of z."""
    blocks = jacobian.movedim((y_axis, y_dims + z_axis), (0, 1))
    blocks = blocks.reshape(*blocks.shape[:2], -1)
    apart = torch.eye(len(blocks), dtype=torch.bool).unsqueeze(-1)
    return bool(torch.where(apart, 0, blocks).any())


def proved(graph: Graph, y_axis: int, z_axis: int) -> bool:
    return examine_structure(graph.way, y_axis, z_axis).proved


def proved_layouts(graph: Graph) -> set[tuple[int, int]]:
    """Every (axis of y, axis of z) for which the structure proves the samples apart, z's sizes being equal."""
    return {
        (there, here)
        for there, made in enumerate(graph.y.shape)
        for here, size in enumerate(graph.z.shape)
        if made == size and proved(graph, there, here)
    }


def wrong_proofs(graph: Graph) -> set[tuple[int, int]]:
    """Layouts that are proved, and in which samples meet all the same."""
    return {
        (there, here)
        for there, here in proved_layouts(graph)
        if samples_meet(graph.jacobian, there, here, graph.y.ndim)
    }


def can_push(graph: Graph, order: int) -> bool:
    return why_not_pushed(graph.way, order) is None


def pushed_derivatives(graph: Graph, first: Tensor, second: Tensor | None, order: int) -> tuple[Tensor, Tensor]:
    """y' [P, *y] and y'' [*y] as the rules push them."""
    request = read_request(graph.y, graph.z, (0, None), True)
    jet = push_jets(request, first, second, order)
    return jet.first, torch.zeros_like(graph.y) if jet.second is None else jet.second


def true_slopes(graph: Graph, first: Tensor) -> Tensor:
    """y' [P, *y] of a real y by backwards: J z', attached."""
    jacobian = graph.attached_jacobian.reshape(graph.y.numel(), -1)
    return (first.reshape(len(first), -1) @ jacobian.T).reshape(len(first), *graph.y.shape)


def true_derivatives(graph: Graph, first: Tensor, second: Tensor | None) -> tuple[Tensor, Tensor]:
    """The same, and y'' [*y]: y'' = sum_p z'_p H z'_p + J z'', attached."""
    y, z = graph.y, graph.z
    once = true_slopes(graph, first)
    twice = torch.zeros_like(y) if second is None else torch.tensordot(graph.attached_jacobian, second, z.ndim)
    for tangent, row in zip(first, once, strict=True):
        if row.requires_grad:  # z'_p H_k z'_p for all k: the derivative of u -> <z'_p, d<u, y'_p> / dz>, linear in u
            weights = torch.zeros_like(row, requires_grad=True)
            (grad,) = torch.autograd.grad(row, z, weights, create_graph=True, allow_unused=True)
            if grad is not None and grad.requires_grad:
                (bent,) = torch.autograd.grad((grad * tangent).sum(), weights, create_graph=True, allow_unused=True)
                twice = twice if bent is None else twice + bent
    return once, twice


def forward_derivatives(f: Made, z: Tensor, first: Tensor, second: Tensor) -> tuple[Tensor, Tensor]:
    """y' and y'' by torch's forward mode, for complex numbers as well."""
    z = z.detach()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # torch.func.jvp scripts its decompositions once
        torch.func.jvp(torch.sin, (z,), (z,))

    def once(at: Tensor, tangent: Tensor) -> Tensor:
        return torch.func.jvp(f, (at,), (tangent,))[1]

    rows = [once(z, tangent) for tangent in first]
    bent = [torch.func.jvp(lambda at, t=tangent: once(at, t), (z,), (tangent,))[1] for tangent in first]
    return torch.stack(rows), torch.stack(bent).sum(0) + once(z, second)


def weighed(once: Tensor, twice: Tensor) -> Tensor:
    """A number that every entry of both derivatives weighs in."""
    return (once * normal(*once.shape, like=once, seed=7)).sum() + (
        twice * normal(*twice.shape, like=twice, seed=8)
    ).sum()


def uncovered(graph: Graph, y_axis: int, z_axis: int) -> int | None:
    """How many true non-zeros of the samples' Jacobians the pattern leaves out; None where a step has none to tell."""
    request = read_request(graph.y, graph.z, (y_axis, z_axis), False)
    structure = examine_structure(request.way, 0, z_axis)
    assert structure.proved
    jacobian = graph.jacobian.movedim((y_axis, graph.y.ndim + z_axis), (0, 1))
    blocks = torch.stack([jacobian[b, b].reshape(request.row_count, -1) for b in range(request.samples)])
    seen = (blocks != 0).any(0)
    pattern = sparsity._followed(request, structure, 0, request.column_count)
    if pattern is None:  # not followed further, since everything has reached everything; or a step can't tell
        return 0 if all(rule.spread for rule in map(rule_of, request.way.names) if rule) else None
    return int((seen & ~pattern.T).sum())


class Planted:
    """Another rule in the place of a node's own, while the block runs."""

    def __init__(self, name: str, rule: Rule) -> None:
        def other(asked: str) -> Rule | None:
            return rule if asked == name else rule_of(asked)

        self._patches = [patch.object(module, "rule_of", other) for module in (structure, pushed, sparsity)]

    def __enter__(self) -> None:
        for each in self._patches:
            each.start()

    def __exit__(self, *error: object) -> None:
        for each in self._patches:
            each.stop()
