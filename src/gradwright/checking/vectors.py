"""Tensors as flat float64 vectors on the CPU: what crosses the border of a trial. A complex number is two reals."""

from __future__ import annotations

from typing import Any

import torch

from gradwright.ground.torch_versions.tensors import is_zerotensor


def flat(tensor: torch.Tensor) -> torch.Tensor:
    """All real numbers in ``tensor``, float64, on the CPU; memory of its own."""
    tensor = _with_memory(tensor)
    found = flat_view(tensor)
    shared = (
        found.device == tensor.device and tensor.layout is torch.strided and storage_of(found) == storage_of(tensor)
    )
    return found.clone() if shared else found


def flat_view(tensor: torch.Tensor) -> torch.Tensor:
    """As ``flat``, but a view of ``tensor`` where its dtype, device and strides allow that."""
    tensor = _with_memory(tensor.detach())
    if tensor.layout is not torch.strided:
        tensor = tensor.to_dense()
    if tensor.is_complex():
        tensor = torch.view_as_real(tensor.resolve_conj())
    return tensor.resolve_neg().to("cpu", torch.float64).reshape(-1)


def _with_memory(tensor: torch.Tensor) -> torch.Tensor:
    """The zeros that torch returns as a mere promise (the gradient of ``sgn``), made real."""
    return tensor.clone() if is_zerotensor(tensor) else tensor


def largest_entry(vector: torch.Tensor) -> float:
    """The largest magnitude in a flat vector, NaN if it holds one; 0 of an empty one. One pass, no temporary."""
    if not vector.numel():
        return 0.0
    low, high = torch.aminmax(vector)  # five times as fast as a norm
    return max(-float(low), float(high))


def largest_apart(one: torch.Tensor, other: torch.Tensor) -> float:
    """The largest difference between entries of two flat vectors of one length."""
    return 0.0 if torch.equal(one, other) else largest_entry(one - other)


def storage_of(tensor: torch.Tensor) -> int:
    """Where the memory of a strided tensor begins."""
    address: int = tensor.untyped_storage().data_ptr()
    return address


def tensors_in(value: Any) -> list[torch.Tensor]:
    """The tensors of an output: itself, or those of a tuple, list, dict or dataclass-like mapping, in order."""
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, (tuple, list)):
        return [tensor for item in value for tensor in tensors_in(item)]
    return []
