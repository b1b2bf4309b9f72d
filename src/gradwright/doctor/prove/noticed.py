"""What a caller could notice besides numbers: memory that is shared or changed, random numbers that were drawn."""

from __future__ import annotations

import hashlib
import random as python_random
import sys
from typing import Any

import torch
from torch import Tensor

from gradwright.ground.random_states import CPU, accelerators_in_use, get_random_state
from gradwright.ground.tensors import storage_of

_MOST_OVERLAP = 4096  # elements of two tensors in one storage that are looked at one by one


def mark(value: Any) -> Any:
    """What tells a value from another: the exact numbers of a tensor, so that NaN equals itself."""
    if isinstance(value, Tensor):
        if value.layout is not torch.strided:
            return value.shape
        numbers = value.detach().resolve_conj().resolve_neg().contiguous().cpu()
        return value.shape, value.dtype, bytes(numbers.reshape(-1).view(torch.uint8).numpy())
    if hasattr(value, "tobytes"):  # NumPy's
        return getattr(value, "shape", ()), value.tobytes()
    return repr(value) if isinstance(value, (int, float, complex, str, bytes, type(None))) else type(value).__name__


def chance_mark() -> str:
    """torch's, Python's and NumPy's random states in a few letters."""
    of_torch = [get_random_state(device) for device in (CPU, *accelerators_in_use())]
    states = torch.cat(of_torch).numpy().tobytes() + repr(python_random.getstate()[1][-8:]).encode()
    if (numpy := sys.modules.get("numpy")) is not None:
        state = numpy.random.get_state()
        states += state[1][:4].tobytes() + repr(state[2:]).encode()
    return hashlib.blake2b(states, digest_size=8).hexdigest()


def shared(outputs: dict[str, Any], args: dict[str, Tensor]) -> tuple[frozenset[tuple[str, str]], ...]:
    """Which outputs lie where an argument or another output lies, and which of them are the whole of it."""
    made = [(name, value) for name, value in outputs.items() if isinstance(value, Tensor) and storage_of(value)]
    pairs = [
        (name, other, value.shape == held.shape)
        for index, (name, value) in enumerate(made)
        for other, held in [*args.items(), *made[index + 1 :]]
        if overlap(value, held)
    ]
    return frozenset(pair[:2] for pair in pairs), frozenset(pair[:2] for pair in pairs if pair[2])


def overlap(one: Tensor, other: Tensor) -> bool:
    """Whether an element of one tensor is an element of the other."""
    if not storage_of(one) or storage_of(one) != storage_of(other):
        return False
    if one.numel() + other.numel() > _MOST_OVERLAP:
        return True
    return not _places(one).isdisjoint(_places(other))


def _places(tensor: Tensor) -> set[int]:
    at = {int(tensor.storage_offset()) * tensor.element_size()}
    for size, stride in zip(tensor.shape, tensor.stride(), strict=True):
        step = int(stride) * tensor.element_size()
        at = {start + turn * step for start in at for turn in range(size if step else 1)}
    return at
