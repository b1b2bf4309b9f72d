"""A number that stands for the loss of a whole window in the backward of one micro-batch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor


def pulled(value: Tensor, outputs: Sequence[Tensor], cotangents: Sequence[Tensor], scale: float = 1.0) -> Tensor:
    """``value``, whose derivative by each output is its cotangent: known, and not of this graph.

    ``scale``: of a gradient scaler, which the cotangents hold already (in float16 they would be 0 without it), and
    which the backward of the value brings once more.
    Not the inner product of both, which GradCache takes: that reads everything once more, and its value says nothing.

    >>> y = torch.ones(2, requires_grad=True)
    >>> pulled(torch.tensor(5.0), [y], [torch.tensor([1.0, 2.0])]).backward()
    >>> y.grad
    tensor([1., 2.])
    """
    apply: Callable[..., Tensor] = _Pulled.apply
    return apply(value, list(cotangents), scale, *outputs)


class _Pulled(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, value: Tensor, cotangents: list[Tensor], scale: float, *outputs: Tensor) -> Tensor:
        ctx.cotangents, ctx.scale = cotangents, scale
        return value.detach().clone()

    @staticmethod
    def backward(ctx: Any, *arrived: Tensor) -> Any:
        factor = arrived[0] / ctx.scale  # 1; a loss's weight; 0 in a micro-batch that is run for the other ranks
        return None, None, None, *[one * factor.to(one.dtype) for one in ctx.cotangents]
