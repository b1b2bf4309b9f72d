"""Looks at a tensor's values: cheap where all is well, exact where it is not."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from gradwright.ground.tensors import is_being_captured
from gradwright.ground.torch_versions.modes import DisableTorchFunction, disable_current_modes
from gradwright.ground.torch_versions.tensors import base_of, is_view

# Of other classes (distributed, quantized, fake) a sum may be a message to other processes.
_PLAIN = (Tensor, torch.nn.Parameter, torch.nn.Buffer)
HALVES = (torch.float16, torch.bfloat16)


def all_finite(tensor: Tensor) -> bool:
    """No NaN and no inf among a tensor's entries; what can't be looked at (no values, a capture) counts as finite.

    A finite sum has finite terms only: the difference of the sum and itself is then 0, and NaN otherwise. Only a sum
    that is not finite (which finite terms can have: float16) needs the exact look. Changes nothing: no graph, no random
    numbers. Cost: one sum, read by the host.

    >>> all_finite(torch.full((100,), 60000.0, dtype=torch.float16)), all_finite(torch.tensor([1.0, float("nan")]))
    (True, False)
    """
    if type(tensor) not in _PLAIN or not (tensor.is_floating_point() or tensor.is_complex()):
        return True
    try:
        if is_being_captured(tensor):
            return True
        return _look(tensor.detach() if tensor.requires_grad else tensor)
    except Exception:  # meta and fake tensors, wrapped ones of transforms, types without a sum
        return True


def _look(tensor: Tensor) -> bool:
    total = tensor.item() if tensor.numel() == 1 else tensor.sum().item()
    return bool(total - total == 0) or bool(torch.isfinite(tensor).all())


def is_view_of_any(tensor: Tensor, others: Iterable[Any]) -> bool:
    """Whether it shows entries of one of the others; not so a view of what was computed on the way (einsum, linear)."""
    if not is_view(tensor):
        return False
    base = base_of(tensor)
    return base is not None and any(isinstance(one, Tensor) and (base is one or base is base_of(one)) for one in others)


def any_nan(tensor: Tensor) -> bool:
    return bool(torch.isnan(tensor.detach()).any())


def first_entry(tensor: Tensor) -> tuple[int, ...]:
    """The index of the first NaN, of the first inf if there is none."""
    tensor = _dense(tensor)
    bad = torch.isnan(tensor)
    if not bool(bad.any()):
        bad = ~torch.isfinite(tensor)
    flat = int(bad.reshape(-1).to(torch.uint8).argmax())
    return unravelled(flat, tensor.shape)


def unravelled(flat: int, shape: Sequence[int]) -> tuple[int, ...]:
    index = []
    for size in reversed(shape):
        index.append(flat % size)
        flat //= size
    return tuple(reversed(index))


def value_at(value: Any, index: tuple[int, ...], shape: Sequence[int]) -> float | None:
    """The entry of a number or tensor that broadcasting to ``shape`` puts at ``index``; ``None`` if it does not fit."""
    if isinstance(value, (bool, int, float)):
        return float(value)
    if not isinstance(value, Tensor) or value.is_complex():
        return None
    value = _dense(value)
    if value.numel() == 1:
        return float(value)
    missing = len(shape) - value.dim()
    if missing < 0 or any(one not in (1, whole) for one, whole in zip(value.shape, shape[missing:], strict=True)):
        return None
    own = tuple(0 if size == 1 else at for size, at in zip(value.shape, index[missing:], strict=True))
    return float(value[own])


def largest(value: Any) -> float:
    """The largest finite magnitude; 0 of nothing."""
    if isinstance(value, (bool, int, float)):
        return abs(float(value)) if math.isfinite(value) else 0.0
    if not isinstance(value, Tensor) or value.numel() == 0 or value.dtype == torch.bool:
        return 0.0
    value = _dense(value)
    size = (value if value.is_floating_point() or value.is_complex() else value.float()).abs()
    return float(torch.where(torch.isfinite(size), size, 0).max())


def word(value: float) -> str:
    """``nan``, ``inf``, ``-inf``, or the number in four digits."""
    return f"{value:.4g}"


def tensors_in(value: Any, depth: int = 3) -> Iterator[Tensor]:
    """The tensors of an argument list: lists, tuples and dicts are opened."""
    if isinstance(value, Tensor):
        yield value
    elif depth and isinstance(value, (list, tuple)):
        for item in value:
            yield from tensors_in(item, depth - 1)
    elif depth and isinstance(value, dict):
        yield from tensors_in(list(value.values()), depth - 1)


def numbers_in(value: Any, depth: int = 3) -> Iterator[float]:
    if isinstance(value, float):
        yield value
    elif depth and isinstance(value, (list, tuple)) and len(value) < 1000:
        for item in value:
            yield from numbers_in(item, depth - 1)
    elif depth and isinstance(value, dict):
        yield from numbers_in(list(value.values()), depth - 1)


@contextlib.contextmanager
def apart() -> Iterator[None]:
    """Our own operations: seen by no mode, recorded by no graph."""
    with DisableTorchFunction(), torch.no_grad(), disable_current_modes():
        yield


def _dense(tensor: Tensor) -> Tensor:
    tensor = tensor.detach()
    return tensor if tensor.layout is torch.strided else tensor.to_dense()


def node_of(tensor: Tensor) -> Any:
    """What made it, ``None`` for a leaf."""
    try:
        return tensor.grad_fn if tensor.requires_grad else None
    except RuntimeError:  # a view made under no_grad, of what is changed in place since
        return None
