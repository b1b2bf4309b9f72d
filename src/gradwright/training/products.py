"""Norms and inner products of gradients, whole or sharded: one message between ranks, and nothing is waited for."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from gradwright.ground.torch_versions.tensors import foreach_norm

Parts = Sequence["Tensor | None"]  # a long vector, cut into the tensors of a model; None is a part of zeros


def added(parts: Parts) -> Tensor | None:
    """Their sum; the part itself where there is one alone, None where there is none."""
    total: Tensor | None = None
    for part in parts:
        if part is not None:
            total = part if total is None else total + part
    return total


def squares(tensors: Sequence[Tensor]) -> Tensor:
    """The squared norm of each tensor. Result: float64, [len(tensors)].

    Cost: reads each element once. Sharded tensors: an all-reduce for each mesh, of a number a tensor.
    """
    found: list[Tensor | None] = [None] * len(tensors)
    for places in _alike(tensors):
        parts = [_plain(tensors[at]) for at in places]
        here = foreach_norm(parts, dtype=torch.promote_types(parts[0].dtype, torch.float32))
        whole = _whole(torch.stack([norm.double() for norm in here]).square(), tensors[places[0]])
        for at, value in zip(places, whole.unbind(), strict=True):
            found[at] = value
    known = [value for value in found if value is not None]
    return torch.stack([value.to(known[0].device) for value in known]) if known else torch.zeros(0, dtype=torch.float64)


def gram(vectors: Sequence[Parts]) -> Tensor:
    """The inner products of vectors that are cut alike. Result: float64, [len(vectors), len(vectors)].

    Cost: reads both vectors of each pair; what is narrower than float32 is multiplied in float32.
    """
    count = len(vectors)
    total: Tensor | None = None
    likes = [next((part for part in parts if part is not None), None) for parts in zip(*vectors, strict=True)]
    for places in _alike(likes):
        rows = [[None if vector[at] is None else _plain(vector[at]) for at in places] for vector in vectors]
        like = likes[places[0]]
        here = torch.stack([_dot(rows[i], rows[j], like) for i in range(count) for j in range(i + 1)])
        i, j = torch.tril_indices(count, count).unbind()
        table = here.new_zeros(count, count)
        table[i, j] = table[j, i] = here
        table = _whole(table, like)
        total = table if total is None else total + table.to(total.device)
    return torch.zeros(count, count, dtype=torch.float64) if total is None else total


def _dot(firsts: Parts, seconds: Parts, like: Any) -> Tensor:
    total = torch.zeros((), dtype=torch.float64, device=like.device)
    for first, second in zip(firsts, seconds, strict=True):
        if first is not None and second is not None and first.numel():
            wide = torch.promote_types(first.dtype, torch.float32)
            total = total + torch.dot(first.reshape(-1).to(wide), second.reshape(-1).to(wide)).double()
    return total


def _alike(tensors: Parts) -> list[list[int]]:
    """The places of those that are sharded alike, on one device and of one type."""
    kinds: dict[Any, list[int]] = {}
    for at, tensor in enumerate(tensors):
        if tensor is not None:
            sharded: Any = tensor
            how = (sharded.device_mesh, tuple(sharded.placements)) if is_sharded(tensor) else None
            kinds.setdefault((how, tensor.device, tensor.dtype), []).append(at)
    return list(kinds.values())


def is_sharded(tensor: Any) -> bool:
    return "torch.distributed.tensor" in sys.modules and hasattr(tensor, "device_mesh")


def local(tensor: Any) -> Tensor:
    """What of a tensor lies on this rank; it shares its memory."""
    found: Tensor = tensor.to_local() if is_sharded(tensor) else tensor
    return found


def _plain(tensor: Any) -> Tensor:
    here = local(tensor.detach())
    return torch.view_as_real(here) if here.is_complex() else here


def _whole(sums: Tensor, like: Any) -> Tensor:
    """Sums over this rank's shards become sums over all; replicas hold the same ones."""
    if not is_sharded(like):
        return sums
    from torch.distributed.tensor import DTensor, Partial, Placement, Replicate

    placements: list[Placement] = [Replicate() if one.is_replicate() else Partial() for one in like.placements]
    whole: Tensor = DTensor.from_local(sums, like.device_mesh, placements).full_tensor()
    return whole
