"""torch.func: vmap, and derivatives as functions."""

from __future__ import annotations

from typing import Any

import torch
from torch import func

from ..row import row
from .values import SCALE, constant

SECTION = "torch.func"
BATCH = ((0.5, -1.0, 2.0), (1.0, 3.0, -2.0))


def batch() -> torch.Tensor:
    return torch.tensor(BATCH, dtype=torch.float64)


def summed(function: Any) -> Any:
    return lambda *given: function(*given).sum()


@row(SECTION, "vmap")
def vmap(column: Any) -> tuple[Any, Any]:
    """`x * x.sum()` over a batch: every sample has a sum of its own."""
    x = batch()
    return func.vmap(column.times_own_sum)(x), x * x.sum(1, keepdim=True)


@row(SECTION, "vmap, one input not batched")
def vmap_unbatched(column: Any) -> tuple[Any, Any]:
    """`product(x, w)` with `in_dims=(1, None)`"""
    x, w = batch(), constant(10.0, 20.0)
    return func.vmap(column.product, in_dims=(1, None))(x, w), (x * w[:, None]).T


@row(SECTION, "vmap of grad (per-sample gradients)")
def per_sample(column: Any) -> tuple[Any, Any]:
    """The gradient of `(x * x.sum()).sum()` is 2 x.sum(), times 2.5, per sample."""
    x = batch()
    got = func.vmap(func.grad(summed(column.times_own_sum)))(x)
    return got, (SCALE * 2 * x.sum(1, keepdim=True)).expand(2, 3)


@row(SECTION, "torch.func.grad")
def func_grad(column: Any) -> tuple[Any, Any]:
    """`grad` of the summed square."""
    x = constant()
    return func.grad(summed(column.square))(x), 5 * x


@row(SECTION, "torch.func.jvp")
def func_jvp(column: Any) -> tuple[Any, Any]:
    """Value and tangent of the square."""
    x, tangent = constant(), constant(1.0, 2.0, 3.0)
    return func.jvp(column.square, (x,), (tangent,)), (x * x, 5 * x * tangent)


@row(SECTION, "jacrev")
def jacrev(column: Any) -> tuple[Any, Any]:
    """The Jacobian of `x * x.sum()`, row by row."""
    x = constant()
    return func.jacrev(column.times_own_sum)(x), SCALE * _jacobian(x)


@row(SECTION, "jacfwd")
def jacfwd(column: Any) -> tuple[Any, Any]:
    """The same, column by column."""
    x = constant()
    return func.jacfwd(column.times_own_sum)(x), SCALE * _jacobian(x)


def _jacobian(x: torch.Tensor) -> torch.Tensor:
    return torch.eye(3, dtype=x.dtype) * x.sum() + x[:, None]


@row(SECTION, "hessian")
def hessian(column: Any) -> tuple[Any, Any]:
    """Forward over reverse: of the summed square, whose gradient is 5 x."""
    return func.hessian(summed(column.square))(constant()), 5 * torch.eye(3, dtype=torch.float64)


@row(SECTION, "reverse over reverse")
def grad_of_grad(column: Any) -> tuple[Any, Any]:
    """`grad` of the sum of squares of `grad`: 50 x, as in a double backward."""
    x = constant()
    inner = func.grad(summed(column.square))
    return func.grad(lambda x: inner(x).square().sum())(x), 50 * x
