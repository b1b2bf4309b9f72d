"""The same values laid out otherwise in memory: transposed, sliced out of storage full of NaN, expanded."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from gradwright.checking.trial import Handed, Trial

Shape = tuple[int, ...]
_OFFSET = 2
_GAP = 3


@dataclass(frozen=True)
class Layout:
    """``plan(shape)`` gives strides and offset in storage; ``None`` where this layout is nothing of its own."""

    name: str
    plan: Callable[[Shape], tuple[Shape, int] | None]
    shared: bool = False  # expanded: only values that are constant along the axes of stride 0 can be laid out so

    def fits(self, tensor: Any) -> bool:
        """Can it be laid out so, and would that be new?"""
        if type(tensor) not in (Tensor, torch.nn.Parameter) or tensor.layout is not torch.strided:
            return False
        if tensor.numel() == 0 or tensor.is_quantized:
            return False
        plan = self.plan(tuple(tensor.shape))
        return plan is not None and plan != (tensor.stride(), tensor.storage_offset())

    def place(self, tensor: Tensor) -> Tensor:
        """A copy of the values so laid out, no view of anything; all storage around them is NaN.

        Cost: one copy, in storage at most a little larger than twice as large.
        """
        shape = tuple(tensor.shape)
        plan = self.plan(shape)
        assert plan is not None
        strides, offset = plan
        span = offset + 1 + sum((size - 1) * stride for size, stride in zip(shape, strides, strict=True)) + offset
        storage = torch.full((span,), torch.nan, dtype=tensor.dtype, device=tensor.device)
        with torch.no_grad():
            placed = torch.empty(0, dtype=tensor.dtype, device=tensor.device)
            placed.set_(storage.untyped_storage(), offset, shape, strides)
            distinct = tuple(slice(0, 1) if stride == 0 else slice(None) for stride in strides)
            placed[distinct].copy_(tensor.detach()[distinct])
        return placed


def _dense(shape: Sequence[int]) -> Shape:
    """The strides of a contiguous tensor."""
    strides, step = [], 1
    for size in reversed(shape):
        strides.append(step)
        step *= size
    return tuple(reversed(strides))


def _contiguous(shape: Shape) -> tuple[Shape, int]:
    return _dense(shape), 0


def _transposed(shape: Shape) -> tuple[Shape, int] | None:
    if sum(size > 1 for size in shape) < 2:
        return None
    return tuple(reversed(_dense(shape[::-1]))), 0


def _sliced(shape: Shape) -> tuple[Shape, int]:
    """``storage[..., 2:2+n]``: the last axis is dense, its rows are not."""
    return _dense((*shape[:-1], shape[-1] + _GAP)) if shape else (), _OFFSET


def _every_other(shape: Shape) -> tuple[Shape, int] | None:
    """``storage[..., 2::2]``"""
    return (tuple(2 * stride for stride in _dense(shape)), _OFFSET) if max(shape, default=1) > 1 else None


def _channels_last(shape: Shape) -> tuple[Shape, int] | None:
    if len(shape) != 4 or sum(size > 1 for size in shape) < 2:
        return None
    _, channel, height, width = shape
    return (channel * height * width, 1, width * channel, channel), 0


def _expanded(axes: slice) -> Callable[[Shape], tuple[Shape, int] | None]:
    def plan(shape: Shape) -> tuple[Shape, int] | None:
        shared = set(range(len(shape))[axes])
        if not any(shape[axis] > 1 for axis in shared):
            return None
        kept = _dense([1 if axis in shared else size for axis, size in enumerate(shape)])
        return tuple(0 if axis in shared else kept[axis] for axis in range(len(shape))), _OFFSET

    return plan


CONTIGUOUS = Layout("contiguous", _contiguous)
TRANSPOSED = Layout("transposed", _transposed)
SLICED = Layout("sliced out of larger storage", _sliced)
EVERY_OTHER = Layout("every other element of larger storage", _every_other)
CHANNELS_LAST = Layout("channels last", _channels_last)
EXPANDED = Layout("expanded (stride 0)", _expanded(slice(None)), shared=True)
EXPANDED_ALONG_FIRST = Layout("expanded along the first axis (stride 0)", _expanded(slice(0, 1)), shared=True)
EXPANDED_ALONG_LAST = Layout("expanded along the last axis (stride 0)", _expanded(slice(-1, None)), shared=True)


def constant_along(layout: Layout, tensor: Tensor) -> Tensor:
    """Values that can be laid out so: those of the first slice along every axis of stride 0, dense."""
    plan = layout.plan(tuple(tensor.shape))
    if plan is None:
        return tensor
    first = tuple(slice(0, 1) if stride == 0 else slice(None) for stride in plan[0])
    return tensor[first].expand(tensor.shape).contiguous()


class _Placed(torch.autograd.Function):
    """A copy laid out otherwise, inside a graph; a gradient of any layout passes through."""

    @staticmethod
    def forward(ctx: Any, tensor: Tensor, layout: Layout) -> Tensor:
        return layout.place(tensor)

    @staticmethod
    def backward(ctx: Any, cotangent: Tensor) -> tuple[Tensor, None]:
        return cotangent, None


def handed_in(trial: Trial, layout: Layout, only: int | None = None, *, placed: bool = True) -> Handed | None:
    """The trial's arguments with every tensor of real or complex numbers (or that at position ``only``) in ``layout``.

    ``None`` if none fits. Parameters, and tensors tied to an object, stay as they are. Of a shared layout, the values
    are first made constant along its axes; ``placed=False`` stops there: the same values, dense.
    """
    handed, changed = trial.handed(), False
    for index, value in enumerate(handed.args):
        if index in trial.tied or isinstance(value, torch.nn.Parameter) or (only is not None and index != only):
            continue
        if not layout.fits(value) or not (value.is_floating_point() or value.is_complex()):
            continue
        if layout.shared:
            value = constant_along(layout, value)
        if placed:
            value = _Placed.apply(value, layout) if value.requires_grad else layout.place(value)  # type: ignore[no-untyped-call]  # torch has no types here
        handed.args[index], changed = value, True
    return handed if changed else None
