"""Products of matrices and vectors: linear layers, attention scores, einsum."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from gradwright.derivatives.graph.way import Step
from gradwright.derivatives.nodes.algebra import bilinear, broadcast, moved, plus, scaled, wrapped
from gradwright.derivatives.nodes.reach import joined_reach
from gradwright.derivatives.nodes.rule import Jet, Place, Rule, aligned
from gradwright.ground.torch_versions.nodes import read_saved


@dataclass(frozen=True)
class Product:
    """out = beta * bias + alpha * left · right, told by the axes.

    ``left``, ``right``: the axis of each factor that becomes each axis of the output (None: not from this factor).
    ``names``: what autograd saves the factors as.  ``biased``: the first input is the bias.
    ``multiply``: left and right, each alone or with an axis of directions in front.
    ``summed``: of two stacks, direction by direction, summed over them.
    ``meet``: which entries of a stack of patterns of the left (True) or right factor reach which of the output.
    """

    left: Sequence[int | None]
    right: Sequence[int | None]
    names: tuple[str, str]
    biased: bool
    multiply: Callable[[Tensor, Tensor], Tensor]
    summed: Callable[[Tensor, Tensor], Tensor]
    meet: Callable[[Tensor, bool, torch.Size], Tensor]

    def batch(self, step: Step, place: Place, number: int) -> Sequence[Place | None]:
        # a factor whose axis is not the batch's makes every sample of the output
        found: list[Place | None] = []
        for axes, into in zip((self.left, self.right), step.inputs[-2:], strict=True):
            axis = axes[place.axis]
            found.append(None if axis is None or not into.leads else moved(place, axis))
        if not self.biased:
            return found
        bias = step.inputs[0]
        return [aligned(step, place, bias.shape) if bias.leads else None, *found]

    def push(self, step: Step, jets: Sequence[Jet | None], order: int) -> Mapping[int, Jet]:
        bias, left, right = (jets[0] if self.biased else None), jets[-2], jets[-1]
        made: Jet | None = None
        if left is not None or right is not None:
            factors = (
                None if right is None else _saved(step.node, self.names[0]),
                None if left is None else _saved(step.node, self.names[1]),
            )
            made = bilinear(self.multiply, self.summed, factors, (left, right), order)
            made = scaled(made, read_saved(step.node, "alpha")) if self.biased else made
        if bias is not None:
            bias = broadcast(scaled(bias, read_saved(step.node, "beta")), step.shape())
        return {0: plus(bias, made)}

    def spread(self, step: Step, reach: Sequence[Tensor | None]) -> Mapping[int, Tensor]:
        shape = step.shape()
        met = [None if into is None else self.meet(into, i == 0, shape) for i, into in enumerate(reach[-2:])]
        return {0: joined_reach([*(reach[:1] if self.biased else ()), *met], shape)}

    @property
    def rule(self) -> Rule:
        return Rule(self.batch, self.push, self.spread)


def _saved(node: Any, name: str) -> Tensor:
    factor: Tensor = read_saved(node, name)
    # a sparse factor multiplies no stack
    return factor if factor.layout == torch.strided else factor.to_dense()


def _matmul(left: Tensor, right: Tensor) -> Tensor:
    # rows that are one row, expanded (the unit vectors of a Jacobian's columns), are multiplied once
    rows = left.shape[-2]
    if rows > 1 and left.stride(-2) == 0:
        once = torch.matmul(left.narrow(-2, 0, 1), right)
        return once.expand(*once.shape[:-2], rows, once.shape[-1])
    return torch.matmul(left, right)


def _matrix_meets(into: Tensor, is_left: bool, shape: torch.Size) -> Tensor:
    return into.any(-1 if is_left else -2, keepdim=True).expand(len(into), *shape)


def _mm(names: tuple[str, str], biased: bool) -> Rule:
    def summed(left: Tensor, right: Tensor) -> Tensor:
        # sum_p left[p] @ right[p], as one product of [m, P k] with [P k, n]
        return left.movedim(0, 1).flatten(1) @ right.flatten(0, 1)

    return Product((0, None), (None, 1), names, biased, _matmul, summed, _matrix_meets).rule


def _bmm(names: tuple[str, str], biased: bool) -> Rule:
    def summed(left: Tensor, right: Tensor) -> Tensor:
        return left.permute(1, 2, 0, 3).flatten(2) @ right.transpose(0, 1).flatten(1, 2)

    return Product((0, 1, None), (0, None, 2), names, biased, _matmul, summed, _matrix_meets).rule


def _addbmm() -> Rule:
    def multiply(left: Tensor, right: Tensor) -> Tensor:
        return _matmul(left, right).sum(-3)

    def summed(left: Tensor, right: Tensor) -> Tensor:
        return torch.matmul(left, right).sum((0, 1))

    def meet(into: Tensor, is_left: bool, shape: torch.Size) -> Tensor:
        return _matrix_meets(into.any(1), is_left, shape)

    return Product((1, None), (None, 2), ("batch1", "batch2"), True, multiply, summed, meet).rule


def _mv(names: tuple[str, str], biased: bool) -> Rule:
    def multiply(matrix: Tensor, vector: Tensor) -> Tensor:
        return torch.matmul(matrix, vector.unsqueeze(-1)).squeeze(-1)

    def summed(matrix: Tensor, vector: Tensor) -> Tensor:
        return multiply(matrix, vector).sum(0)

    def meet(into: Tensor, is_left: bool, shape: torch.Size) -> Tensor:
        return into.any(-1) if is_left else into.any(-1, keepdim=True).expand(len(into), *shape)

    return Product((0,), (None,), names, biased, multiply, summed, meet).rule


def _outer() -> Rule:
    def multiply(left: Tensor, right: Tensor) -> Tensor:
        return left.unsqueeze(-1) * right.unsqueeze(-2)

    def summed(left: Tensor, right: Tensor) -> Tensor:
        return left.T @ right

    def meet(into: Tensor, is_left: bool, shape: torch.Size) -> Tensor:
        return into.unsqueeze(-1 if is_left else -2).expand(len(into), *shape)

    return Product((0, None), (None, 0), ("vec1", "vec2"), True, multiply, summed, meet).rule


def _dot() -> Rule:
    def multiply(left: Tensor, right: Tensor) -> Tensor:
        return (left * right).sum(-1)

    def summed(left: Tensor, right: Tensor) -> Tensor:
        return (left * right).sum()

    def meet(into: Tensor, is_left: bool, shape: torch.Size) -> Tensor:
        return into.any(-1)

    return Product((), (), ("self", "tensor"), False, multiply, summed, meet).rule


def _trilinear_batch(step: Step, place: Place, number: int) -> Sequence[Place | None]:
    # bilinear layers: three factors, expanded to common axes by the axes each lacks; some of these are summed
    lacking = [read_saved(step.node, "expand1"), read_saved(step.node, "expand2"), read_saved(step.node, "expand3")]
    common = len(step.shape()) + len(read_saved(step.node, "sumdim"))
    gone = {wrapped(dim, common) for dim in read_saved(step.node, "sumdim")}
    axis = [axis for axis in range(common) if axis not in gone][place.axis]
    found: list[Place | None] = []
    for dims, into in zip(lacking, step.inputs, strict=True):
        absent = {wrapped(dim, common) for dim in dims}
        before = sum(other < axis for other in absent)
        found.append(None if axis in absent or not into.leads else moved(place, axis - before))
    return found


RULES = {
    "MmBackward0": _mm(("self", "mat2"), False),
    "AddmmBackward0": _mm(("mat1", "mat2"), True),
    "BmmBackward0": _bmm(("self", "mat2"), False),
    "BaddbmmBackward0": _bmm(("batch1", "batch2"), True),
    "AddbmmBackward0": _addbmm(),
    "MvBackward0": _mv(("self", "vec"), False),
    "AddmvBackward0": _mv(("mat", "vec"), True),
    "AddrBackward0": _outer(),
    "DotBackward0": _dot(),
    "TrilinearBackward0": Rule(_trilinear_batch),
}
