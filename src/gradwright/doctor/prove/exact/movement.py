"""Operations that move elements and change none: the same in every part. ``OPERATIONS`` is read by ``evaluation``."""

from __future__ import annotations

from typing import Any

import torch

from gradwright.doctor.prove.exact.arithmetic import Arithmetic
from gradwright.doctor.prove.exact.elementwise import Operation
from gradwright.doctor.prove.exact.number import Number, replaced

# Of the same name in torch.ops.aten. Views stay views of the parts.
NAMES = (
    *("view", "_unsafe_view", "_reshape_alias", "reshape", "expand", "permute", "transpose", "t", "squeeze"),
    *("unsqueeze", "select", "slice", "diagonal", "as_strided", "unbind", "split", "split_with_sizes", "chunk"),
    *("unfold", "alias", "detach", "narrow", "movedim", "flatten", "unflatten"),
    *("flip", "roll", "rot90", "cat", "stack", "repeat", "repeat_interleave", "index", "index_select", "gather"),
    *("take", "tril", "triu", "diag", "diag_embed", "masked_select", "select_backward", "slice_backward"),
    *("diagonal_backward", "select_scatter", "slice_scatter", "diagonal_scatter", "masked_scatter", "index_copy"),
    *("_unsafe_index", "block_diag", "hstack", "vstack", "lift_fresh", "lift", "expand_copy"),
)


def _moved(name: str) -> Operation:
    packet = getattr(torch.ops.aten, name)

    def operation(e: Arithmetic, *args: Any, **kwargs: Any) -> Any:
        def part(k: int) -> Any:
            given, named = replaced((args, kwargs), Number, lambda number: number.parts[k])
            return packet(*given, **named)

        parts = [part(k) for k in range(1 + len(e.field.moduli))]
        if isinstance(parts[0], torch.Tensor):
            return Number(parts[0], tuple(parts[1:]))
        return [Number(several[0], tuple(several[1:])) for several in zip(*parts, strict=True)]

    return operation


def clone(e: Arithmetic, x: Number, memory_format: Any = None) -> Number:
    layout = torch.preserve_format if memory_format is None else memory_format
    return x.map(lambda part: part.clone(memory_format=layout))


def copy(e: Arithmetic, x: Any, source: Any, non_blocking: bool = False) -> Number:
    shape = x.shape
    return e.number(source).map(lambda part: part.expand(shape).clone())


def fill(e: Arithmetic, x: Number, value: Any) -> Number:
    return copy(e, x, value)


def constant_pad(e: Arithmetic, x: Number, pad: list[int], value: Any = 0) -> Number:
    padded = x.map(lambda part: torch.constant_pad_nd(part, pad, 0))
    if value == 0:
        return padded
    inside = torch.constant_pad_nd(torch.ones(x.shape, dtype=torch.bool), pad, False)
    return e.where(inside, padded, value)


def index_fill(e: Arithmetic, x: Number, dim: int, index: torch.Tensor, value: Any) -> Number:
    chosen = torch.zeros(x.shape[dim], dtype=torch.bool).index_fill(0, index, True)
    shape = [-1 if axis == dim % x.dim() else 1 for axis in range(x.dim())]
    return e.where(chosen.view(shape), value, x)


def broadcast_in_dim(e: Arithmetic, x: Number, shape: list[int], axes: list[int]) -> Number:
    """prims: axis k of x becomes axis ``axes[k]`` of ``shape``."""
    between = [x.shape[axes.index(axis)] if axis in axes else 1 for axis in range(len(shape))]
    return x.map(lambda part: part.reshape(between).expand(shape))


OPERATIONS: dict[str, Operation] = {
    **{name: _moved(name) for name in NAMES if hasattr(torch.ops.aten, name)},
    "clone": clone,
    "contiguous": clone,
    "broadcast_in_dim": broadcast_in_dim,
    "copy": copy,
    "fill": fill,
    "zero": lambda e, x: x.map(torch.zeros_like),
    "constant_pad_nd": constant_pad,
    "index_fill": index_fill,
}
