"""Faults that no change of a formula makes: the value is right, its gradient or its second gradient is not."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from gradwright.ground.tensors import differentiable

NAME = "__gradwright_fault__"  # under which a faulty twin finds this module


class _WrongVjp(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, value: Tensor) -> Tensor:
        return value.clone()

    @staticmethod
    def backward(ctx: Any, cotangent: Tensor) -> Tensor:
        return 1.5 * cotangent


class _Once(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, value: Tensor) -> Tensor:
        return value.clone()

    @staticmethod
    def backward(ctx: Any, cotangent: Tensor) -> Tensor:
        return cotangent.detach()


def wrong_vjp(value: Any) -> Any:
    """The value, whose gradient comes out half as large again."""
    return _WrongVjp.apply(value) if differentiable(value) else value  # type: ignore[no-untyped-call]  # torch's own


def once(value: Any) -> Any:
    """The value, whose gradient can't be differentiated again."""
    return _Once.apply(value) if differentiable(value) else value  # type: ignore[no-untyped-call]  # torch's own
