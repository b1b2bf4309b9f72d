"""The strides of operands and results along the full shape, as launches walk them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import torch
from torch import Tensor

from gradwright.kernels.launch.geometry import Strides, dense_strides, is_dense
from gradwright.kernels.launch.results import Operand, Result

KINDS: Final = {
    torch.float32: "f32",
    torch.float64: "f64",
    torch.float16: "f16",
    torch.bfloat16: "bf16",
    torch.int8: "i8",
    torch.uint8: "u8",
    torch.int16: "i16",
    torch.int32: "i32",
    torch.int64: "i64",
    torch.bool: "bool",
}


def strides_of_operand(operand: Operand, full: Sequence[int]) -> Strides:
    """Along the full shape, 0 where the operand is broadcast."""
    if not isinstance(operand, Tensor):
        return (0,) * len(full)
    own = [0 if size == 1 else stride for size, stride in zip(operand.shape, operand.stride(), strict=True)]
    return (0,) * (len(full) - len(own)) + tuple(own)


def strides_of_result(result: Result, full: Sequence[int], order: Sequence[int]) -> Strides:
    """Of a summed one: those of a dense tensor of the axes that are kept, 0 along the others."""
    summed = result.summed_axes(full)
    like = result.like
    if not summed and like is not None and like.shape == result.shape and is_dense(like.shape, like.stride()):
        return tuple(like.stride())
    dense = dense_strides(full, [axis for axis in order if axis not in summed])
    return tuple(0 if axis in summed else stride for axis, stride in enumerate(dense))
