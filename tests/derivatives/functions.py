"""Functions of somebody's own: no rule knows them, so the graph proves nothing of them."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable


class Same(torch.autograd.Function):
    """The identity."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x.clone()

    @staticmethod
    def backward(ctx: Any, cotangent: Tensor) -> Tensor:
        return cotangent.clone()


class Doubled(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return 2 * x

    @staticmethod
    def backward(ctx: Any, cotangent: Tensor) -> Tensor:
        return 2 * cotangent


class Cube(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return x**3

    @staticmethod
    def backward(ctx: Any, cotangent: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        return 3 * x**2 * cotangent


class Cubed(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return Cube.apply(x)


class Once(Cube):
    """Its backward can't be differentiated."""

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, cotangent: Tensor) -> Tensor:
        return Cube.backward(ctx, cotangent)


class NumpySine(torch.autograd.Function):
    """Its backward leaves torch."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return torch.from_numpy(torch.sin(x.detach()).numpy())

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, cotangent: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        return torch.from_numpy(cotangent.numpy() * x.cos().numpy())


class Normalised(torch.autograd.Function):
    """The identity; its backward scales the cotangent to norm 1 over the whole batch."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x.clone()

    @staticmethod
    def backward(ctx: Any, cotangent: Tensor) -> Tensor:
        return cotangent / cotangent.norm()
