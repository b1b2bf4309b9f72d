"""Two kernels as users write them: silu(x) * gate, and the softmax of rows; each with a backward, right or faulty."""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.autograd.function import once_differentiable

BLOCK = 128
NARROW = (torch.float16, torch.bfloat16, torch.float32)


@triton.jit
def _gated(x, gate, made, elements, BLOCK: tl.constexpr):  # noqa: N803 - as Triton's users write it
    places = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = places < elements
    a = tl.load(x + places, mask=inside, other=0.0).to(tl.float32)
    b = tl.load(gate + places, mask=inside, other=0.0).to(tl.float32)
    tl.store(made + places, a * tl.sigmoid(a) * b, mask=inside)


@triton.jit
def _gated_back(cotangent, x, gate, of_x, of_gate, elements, factor, BLOCK: tl.constexpr):  # noqa: N803 - as Triton's users write it
    places = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = places < elements
    g = tl.load(cotangent + places, mask=inside, other=0.0).to(tl.float32)
    a = tl.load(x + places, mask=inside, other=0.0).to(tl.float32)
    b = tl.load(gate + places, mask=inside, other=0.0).to(tl.float32)
    s = tl.sigmoid(a)
    tl.store(of_x + places, g * b * s * (1.0 + a * (1.0 - s)), mask=inside)
    tl.store(of_gate + places, factor * g * a * s, mask=inside)


@triton.jit
def _softmax(x, made, columns, WIDTH: tl.constexpr):  # noqa: N803 - as Triton's users write it
    places = tl.arange(0, WIDTH)
    inside = places < columns
    row = tl.program_id(0) * columns
    a = tl.load(x + row + places, mask=inside, other=-float("inf")).to(tl.float32)
    e = tl.exp(a - tl.max(a, 0))
    tl.store(made + row + places, e / tl.sum(e, 0), mask=inside)


@triton.jit
def _softmax_back(cotangent, made, of_x, columns, factor, WIDTH: tl.constexpr):  # noqa: N803 - as Triton's users write it
    places = tl.arange(0, WIDTH)
    inside = places < columns
    row = tl.program_id(0) * columns
    g = tl.load(cotangent + row + places, mask=inside, other=0.0).to(tl.float32)
    p = tl.load(made + row + places, mask=inside, other=0.0).to(tl.float32)
    tl.store(of_x + row + places, p * (g - factor * tl.sum(g * p, 0)), mask=inside)


def _require_narrow(tensor: Tensor) -> None:
    if tensor.dtype not in NARROW:
        raise TypeError(f"there is no kernel for {tensor.dtype}")


class Gated(torch.autograd.Function):
    """silu(x) * gate."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, gate: Tensor) -> Tensor:
        _require_narrow(x)
        x, gate = x.contiguous(), gate.contiguous()
        ctx.save_for_backward(x, gate)
        made = torch.empty_like(x)
        _gated[(triton.cdiv(x.numel(), BLOCK),)](x, gate, made, x.numel(), BLOCK=BLOCK)
        return made

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, cotangent: Tensor) -> tuple[Tensor, Tensor]:
        return gated_gradients(ctx, cotangent, factor=1.0)


class GatedByTooMuch(Gated):
    """The gradient of the gate is a quarter too large."""

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, cotangent: Tensor) -> tuple[Tensor, Tensor]:
        return gated_gradients(ctx, cotangent, factor=1.25)


class GatedTwice(Gated):
    """Right once; its gradient claims a derivative that no kernel computes."""

    @staticmethod
    def backward(ctx: Any, cotangent: Tensor) -> tuple[Tensor, Tensor]:
        return gated_gradients(ctx, cotangent, factor=1.0)


def gated_gradients(ctx: Any, cotangent: Tensor, factor: float) -> tuple[Tensor, Tensor]:
    """``factor``: of the gradient of the gate; 1 is right."""
    x, gate = ctx.saved_tensors
    of_x, of_gate = torch.empty_like(x), torch.empty_like(gate)
    blocks = (triton.cdiv(x.numel(), BLOCK),)
    _gated_back[blocks](cotangent.contiguous(), x, gate, of_x, of_gate, x.numel(), factor, BLOCK=BLOCK)
    return of_x, of_gate


class Softmax(torch.autograd.Function):
    """Along the last axis."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        _require_narrow(x)
        x = x.contiguous()
        made = torch.empty_like(x)
        columns = x.shape[-1]
        _softmax[(x.numel() // columns,)](x, made, columns, WIDTH=triton.next_power_of_2(columns))
        ctx.save_for_backward(made)
        return made

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, cotangent: Tensor) -> Tensor:
        return softmax_gradient(ctx, cotangent, factor=1.0)


class SoftmaxUncoupled(Softmax):
    """Its backward forgets that the entries of a row sum to 1."""

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, cotangent: Tensor) -> Tensor:
        return softmax_gradient(ctx, cotangent, factor=0.0)


def softmax_gradient(ctx: Any, cotangent: Tensor, factor: float) -> Tensor:
    """``factor``: of what couples the entries of a row; 1 is right."""
    (made,) = ctx.saved_tensors
    of_x, columns = torch.empty_like(made), made.shape[-1]
    width, rows = triton.next_power_of_2(columns), made.numel() // columns
    _softmax_back[(rows,)](cotangent.contiguous(), made, of_x, columns, factor, WIDTH=width)
    return of_x
