"""The arguments of one trial: fresh tensors, laid out as the given ones, some of which require a gradient."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import torch
from torch import Tensor

from gradwright.doctor.prove.trees import rebuilt, tensor_names, tensors
from gradwright.ground.tensors import storage_of

WIDER = {True: torch.complex128, False: torch.float64}


def own_copy(value: Tensor, double: bool) -> Tensor:
    """A tensor with its own storage, laid out as the given one (in float64: contiguous)."""
    value = value.detach()
    if double and (value.is_floating_point() or value.is_complex()):
        return value.to(WIDER[value.is_complex()]).clone()
    if value.layout is not torch.strided:
        return value.clone()
    return _view_of(value.untyped_storage().clone(), value)  # type: ignore[no-untyped-call]  # torch's own


def _view_of(storage: torch.UntypedStorage, like: Tensor) -> Tensor:
    fresh = torch.empty(0, dtype=like.dtype, device=like.device)
    return fresh.set_(storage, like.storage_offset(), like.shape, like.stride())


def own_copies(values: Sequence[Tensor], double: bool = False) -> list[Tensor]:
    """Copies of all; those that share memory share it still (NOTE [copies keep identity])."""
    sharing: dict[int, list[int]] = {}
    for index, value in enumerate(values):
        sharing.setdefault(storage_of(value) or -index - 1, []).append(index)
    made: dict[int, Tensor] = {}
    for indices in sharing.values():
        first = values[indices[0]]
        if len(indices) == 1 or any(values[index].dtype is not first.dtype for index in indices):
            made.update((index, own_copy(values[index], double)) for index in indices)
            continue
        storage = first.untyped_storage()
        flat = torch.empty(0, dtype=first.dtype, device=first.device).set_(storage.clone())  # type: ignore[no-untyped-call]  # torch's own
        flat = own_copy(flat, double)
        for index in indices:
            like = values[index]
            fresh = torch.empty(0, dtype=flat.dtype, device=flat.device)
            made[index] = fresh.set_(flat.untyped_storage(), like.storage_offset(), like.shape, like.stride())
    return [made[index] for index in range(len(values))]


def arguments(
    args: Sequence[Any], names: Sequence[str], wanted: Collection[str], *, double: bool = False, inner: bool = False
) -> tuple[tuple[Any, ...], dict[str, Tensor]]:
    """Copies of the trees, and by name the leaves whose gradient is ``wanted``.

    ``inner``: what the trees hold is computed from the leaves (each apart), so that it may be written to in place.
    Raises: CannotCopyError.
    """
    given = tensors(args)
    copies = own_copies(given, double)
    leaves = {}
    for index, (old, name) in enumerate(zip(given, tensor_names(names, args), strict=True)):
        parameter = isinstance(old, torch.nn.Parameter)
        if parameter:
            copies[index] = torch.nn.Parameter(copies[index], requires_grad=False)
        if name in wanted and (old.is_floating_point() or old.is_complex()):
            leaves[name] = copies[index].requires_grad_()
            if inner and not parameter:
                copies[index] = copies[index].clone()
    return rebuilt(args, lambda index, _: copies[index]), leaves
