"""Convolutions, poolings, vector times matrix in simpler words: written above autograd, which differentiates them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch

from gradwright.doctor.prove.exact.number import NotExaminedError

USUAL = {
    "dilation": 1,
    "ceil_mode": False,
    "return_indices": False,
    "count_include_pad": True,
    "divisor_override": None,
}


def _many(value: int | Sequence[int], rank: int) -> list[int]:
    return [value] * rank if isinstance(value, int) else list(value) if len(value) == rank else list(value) * rank


def _convolution(rank: int) -> Callable[..., torch.Tensor]:
    def convolve(
        x: torch.Tensor, weight: torch.Tensor, bias: Any = None, stride: Any = 1, padding: Any = 0, dilation: Any = 1,
        groups: int = 1,
    ) -> torch.Tensor:  # fmt: skip
        if isinstance(padding, str):
            raise NotExaminedError(f"a convolution with padding {padding!r} is not evaluated exactly")
        batched = x if x.dim() == rank + 2 else x.unsqueeze(0)
        pads = [pad for one in reversed(_many(padding, rank)) for pad in (one, one)]
        batched = torch.constant_pad_nd(batched, pads)
        sizes = list(weight.shape[2:])
        windows = _unfolded(batched, sizes, _many(stride, rank), _many(dilation, rank))
        places = list(windows.shape[2 : 2 + rank])
        # shapes: windows [n, c, *places, *sizes] -> [n, g, places, c/g * sizes]
        n, channels = windows.shape[:2]
        rows = windows.reshape(n, groups, channels // groups, math.prod(places), math.prod(sizes))
        rows = rows.transpose(2, 3).reshape(n, groups, math.prod(places), -1)
        filters = weight.reshape(groups, weight.shape[0] // groups, -1)
        result = (rows @ filters.transpose(1, 2)).transpose(2, 3).reshape(n, weight.shape[0], *places)
        if bias is not None:
            result = result + bias.view(-1, *[1] * rank)
        return result if x.dim() == rank + 2 else result.squeeze(0)

    return convolve


def _unfolded(x: torch.Tensor, sizes: list[int], steps: list[int], gaps: list[int]) -> torch.Tensor:
    """shapes: x [n, c, *s], result [n, c, *places, *sizes]"""
    for axis, (size, step, gap) in enumerate(zip(sizes, steps, gaps, strict=True)):
        x = x.unfold(2 + axis, gap * (size - 1) + 1, step)[..., ::gap]
    return x


def _pooling(rank: int, how: Callable[[torch.Tensor], torch.Tensor], outside: float) -> Callable[..., torch.Tensor]:
    def pool(x: torch.Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0, *rest: Any, **named: Any) -> Any:
        if any(rest) or any(value != USUAL.get(name) for name, value in named.items()):
            raise NotExaminedError("a pooling with more than kernel, stride and padding is not evaluated exactly")
        sizes = _many(kernel_size, rank)
        batched = x if x.dim() == rank + 2 else x.unsqueeze(0)
        pads = [pad for one in reversed(_many(padding, rank)) for pad in (one, one)]
        if any(pads):
            batched = torch.constant_pad_nd(batched, pads, outside)
        windows = _unfolded(batched, sizes, _many(stride or sizes, rank), [1] * rank)
        result = how(windows.flatten(2 + rank))
        return result if x.dim() == rank + 2 else result.squeeze(0)

    return pool


def _product(x: Any, y: Any) -> Any:
    """Of a vector with a matrix without ``squeeze_``, with which torch writes it: in place, of the shape."""
    if isinstance(x, torch.Tensor) and isinstance(y, torch.Tensor) and x.dim() == 1 and y.dim() > 1:
        return torch.matmul(x.unsqueeze(0), y).squeeze(-2)
    return torch.matmul(x, y)


REPLACED: dict[Any, Callable[..., Any]] = dict.fromkeys((torch.matmul, torch.Tensor.matmul), _product)
REPLACED[torch.Tensor.__matmul__] = _product
for _rank, _suffix in ((1, "1d"), (2, "2d"), (3, "3d")):
    _largest = _pooling(_rank, lambda windows: windows.max(-1).values, -math.inf)
    REPLACED[getattr(torch, f"conv{_suffix}")] = _convolution(_rank)
    REPLACED[getattr(torch.nn.functional, f"max_pool{_suffix}")] = _largest
    REPLACED[getattr(torch, f"max_pool{_suffix}")] = _largest
    REPLACED[getattr(torch.nn.functional, f"avg_pool{_suffix}")] = _pooling(
        _rank, lambda windows: windows.mean(-1), 0.0
    )
