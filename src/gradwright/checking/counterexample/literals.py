"""Values as Python text that gives them back exactly."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor


class NoLiteral(Exception):
    """This value can't be written down; the message names its type."""


class Named:
    """A name where a value stood: its repr is the name itself."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return self.name


def literal(value: Any) -> str:
    """``value`` as an expression, with ``torch``, ``inf`` and ``nan`` in scope.

    Tensors keep dtype, device, strides and every bit of their numbers. Raises: NoLiteral.

    >>> literal(torch.tensor([[1.0, -0.5]]).mT)
    'torch.tensor([[1.0], [-0.5]])'
    >>> literal({"mode": ("mean", None)})
    "{'mode': ('mean', None)}"
    """
    if isinstance(value, Tensor):
        return _tensor(value.detach())
    if isinstance(value, torch.Size):
        return f"torch.Size({list(value)})"
    if type(value) is tuple:
        return f"({', '.join(map(literal, value))}{',' if len(value) == 1 else ''})"
    if type(value) is list:
        return f"[{', '.join(map(literal, value))}]"
    if type(value) is dict:
        return "{" + ", ".join(f"{literal(key)}: {literal(item)}" for key, item in value.items()) + "}"
    if isinstance(value, torch.device):
        return f"torch.device({str(value)!r})"
    if value is None or type(value) in (bool, int, float, complex, str, bytes, slice) or value is Ellipsis:
        return repr(value)
    if isinstance(value, (Named, torch.dtype, torch.memory_format)):
        return repr(value)
    raise NoLiteral(type(value).__name__)


def _tensor(tensor: Tensor) -> str:
    if tensor.layout is not torch.strided or tensor.is_quantized:
        raise NoLiteral(f"tensor of layout {tensor.layout}")
    dtype = "" if tensor.dtype in (torch.float32, torch.int64, torch.bool) else f", dtype={tensor.dtype}"
    device = "" if tensor.device.type == "cpu" else f', device="{tensor.device}"'
    if not tensor.numel():
        return f"torch.empty({list(tensor.shape)}, dtype={tensor.dtype}{device})"
    held = tensor.resolve_conj().resolve_neg()
    shared = [stride == 0 and size > 1 for stride, size in zip(tensor.stride(), tensor.shape, strict=True)]
    if any(shared):
        held = held[tuple(slice(0, 1) if is_shared else slice(None) for is_shared in shared)]
    text = f"torch.tensor({held.tolist()!r}{dtype}{device})"
    if any(shared):
        return f"{text}.expand({list(tensor.shape)})"
    if held.is_contiguous() or not _is_dense(held):
        return text
    empty = f"torch.empty_strided({tuple(held.shape)}, {held.stride()}, dtype={held.dtype}{device})"
    return f"{empty}.copy_({text})"


def _is_dense(tensor: Tensor) -> bool:
    """Are the strides those of a permuted contiguous tensor, and not of a slice or of windows that overlap?"""
    axes = sorted((stride, size) for stride, size in zip(tensor.stride(), tensor.shape, strict=True) if size > 1)
    expected = [math.prod(size for _, size in axes[:rank]) for rank in range(len(axes))]
    return [stride for stride, _ in axes] == expected
