"""Smaller neighbours of a specimen, for subjects too slow to be tried at full size."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from gradwright.ground.tensors import copy_with_layout, map_tensors, tensors_in


def shrink(args: tuple[Any, ...], limit: int) -> tuple[Any, ...]:
    """The leading part of every axis longer than ``limit``; equal sizes stay equal, different ones stay different.

    Whole numbers among the arguments that equal a shortened size are shortened with it. Dtypes, strides and
    ``requires_grad`` are kept. Whether the function still takes the result is for the caller to try.

    >>> import torch
    >>> [tuple(t.shape) for t in shrink((torch.ones(1000, 500), torch.ones(500, 3)), 8)]
    [(9, 8), (8, 3)]
    """
    sizes = sorted({size for tensor in tensors_in(args) for size in tensor.shape if size > limit})
    shorter = {size: min(size, limit + rank) for rank, size in enumerate(sizes)}

    def cut(tensor: Tensor) -> Tensor:
        view = tensor.detach()
        for axis, size in enumerate(tensor.shape):
            view = view.narrow(axis, 0, shorter.get(size, size))
        dense = copy_with_layout(tensor.detach()).stride() == tensor.stride() and tensor.is_contiguous()
        copy = view.contiguous() if dense else copy_with_layout(view)
        return (copy.clone() if copy.data_ptr() == tensor.data_ptr() else copy).requires_grad_(tensor.requires_grad)

    def number(arg: Any) -> Any:
        if isinstance(arg, int) and not isinstance(arg, bool):
            return shorter.get(arg, arg)
        return map_tensors(arg, cut)

    return tuple(number(arg) for arg in args)


def describe(args: tuple[Any, ...]) -> str:
    """Dtypes and shapes of the tensors, as a report names what something was tried on."""
    return ", ".join(f"{str(t.dtype).removeprefix('torch.')}{list(t.shape)}" for t in tensors_in(args)) or "no tensor"


def elements(args: tuple[Any, ...]) -> int:
    return max((tensor.numel() for tensor in tensors_in(args)), default=0)


def fresh(args: tuple[Any, ...]) -> tuple[Any, ...]:
    """Copies of the tensors, layout and ``requires_grad`` kept; everything else is handed on."""
    return tuple(
        map_tensors(arg, lambda tensor: copy_with_layout(tensor).requires_grad_(tensor.requires_grad)) for arg in args
    )
