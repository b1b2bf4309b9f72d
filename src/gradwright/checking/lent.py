"""Tensors that were lent to a call, as they were, so that what changed can be told by value."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from gradwright.checking.copies import is_expanded
from gradwright.checking.trial import tensors_in
from gradwright.checking.verdict import Mutation
from gradwright.ground.torch_versions.tensors import version_of


@dataclass(frozen=True)
class Change:
    """A mutation, and the entry that changed most: its index, what it was, what it is.

    ``openly``: autograd saw it (the version counter moved, the graph goes on from the new values), as it does where a
    callable works in place on its argument. ``kept``: of the node's own, nothing that anyone else was handed.
    """

    mutation: Mutation
    at: tuple[int, ...]
    before: float
    after: float
    openly: bool
    kept: bool
    function: str
    place: int


@dataclass
class Lent:
    """Tensors as they were: position, name, the tensor itself, its values, its version and its place in the graph."""

    positions: list[int] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    tensors: list[Tensor] = field(default_factory=list)
    values: list[Tensor] = field(default_factory=list)
    marks: list[tuple[int, Any]] = field(default_factory=list)

    @classmethod
    def of_arguments(cls, args: Sequence[Any], names: Sequence[str]) -> Lent:
        lent = cls()
        for index, (name, value) in enumerate(zip(names, args, strict=True)):
            if isinstance(value, Tensor):
                lent.add(index, name, value)
            else:
                for number, tensor in enumerate(tensors_in(value)):
                    lent.add(index, f"{name}[{number}]", tensor)
        return lent

    def add(self, position: int, name: str, tensor: Tensor) -> None:
        self.positions.append(position)
        self.names.append(name)
        self.tensors.append(tensor)
        self.values.append(tensor.detach().clone())
        self.marks.append(_mark(tensor))

    def refresh(self) -> None:
        self.values = [tensor.detach().clone() for tensor in self.tensors]

    def changes(self, phase: Any, what: Any, kept: bool = False, function: str = "") -> Iterator[Change]:
        for position, name, tensor, value, mark in zip(
            self.positions, self.names, self.tensors, self.values, self.marks, strict=True
        ):
            if equal(value, tensor.detach()):
                continue
            at, old, new = _worst(value, tensor.detach())
            version, node = _mark(tensor)
            openly = version != mark[0] and (node is not mark[1] or not tensor.requires_grad)
            mutation = Mutation(phase=phase, what=what, name=name, index=position)
            yield Change(mutation, at, old, new, openly, kept, function, place_of(tensor))


def place_of(tensor: Tensor) -> int:
    """Where its values lie."""
    return tensor.data_ptr() if tensor.layout is torch.strided else id(tensor)


def _mark(tensor: Tensor) -> tuple[int, Any]:
    return (-1 if tensor.is_inference() else version_of(tensor)), tensor.grad_fn


def _worst(before: Tensor, after: Tensor) -> tuple[tuple[int, ...], float, float]:
    """The entry that changed most, what it was and what it is (of a complex number, the magnitudes)."""
    if before.shape != after.shape or not before.numel() or before.layout is not torch.strided:
        return (), float("nan"), float("nan")
    old, new = (_real(tensor) for tensor in (before, after))
    apart = (new - old).abs().nan_to_num(nan=float("inf"))
    place = int(apart.argmax())
    at = tuple(int(axis) for axis in torch.unravel_index(torch.tensor(place, device="cpu"), before.shape))
    return at, float(old.reshape(-1)[place]), float(new.reshape(-1)[place])


def _real(tensor: Tensor) -> Tensor:
    return (tensor.abs() if tensor.is_complex() else tensor).to("cpu", torch.float64)


def equal(one: Tensor, two: Tensor) -> bool:
    """Equal in value (NaN equals NaN)."""
    if one.shape != two.shape or one.dtype != two.dtype:
        return False
    if one.layout is not torch.strided or is_expanded(one):
        one, two = one.to_dense() if one.is_sparse else one, two.to_dense() if two.is_sparse else two
    if torch.equal(one, two):
        return True
    same = one == two
    if one.is_floating_point() or one.is_complex():
        same |= one.isnan() & two.isnan()
    return bool(same.all())
