"""Reverse, reverse over reverse, forward. The square's custom gradient is 5 x, where 2 x is autograd's."""

from __future__ import annotations

from typing import Any

import torch
from torch.autograd import forward_ad

from ..row import row
from .values import SCALE, constant, leaf, raised

SECTION = "Derivatives"


@row(SECTION, "autograd")
def backward(column: Any) -> tuple[Any, Any]:
    """`square(x).sum().backward()`"""
    x = leaf()
    column.square(x).sum().backward()
    return x.grad, 5 * x


@row(SECTION, "autograd, one input frozen")
def frozen_input(column: Any) -> tuple[Any, Any]:
    """A product of two inputs, of which one wants no gradient."""
    x, w = leaf(), constant(1.0, 2.0, 3.0)
    column.product(x, w).sum().backward()
    return (x.grad, w.grad), (SCALE * w, None)


@row(SECTION, "double backward")
def double_backward(column: Any) -> tuple[Any, Any]:
    """A gradient penalty: the sum of squares of 5 x has the gradient 50 x."""
    x = leaf()
    (gradient,) = torch.autograd.grad(column.square(x).sum(), x, create_graph=True)
    gradient.square().sum().backward()
    return x.grad, 50 * x


@row(SECTION, "forward mode, nothing given")
def forward_mode(column: Any) -> tuple[Any, Any]:
    """A dual number through `square`; its author wrote a backward only."""
    return _tangent(column.square)


@row(SECTION, "forward mode, jvp given")
def forward_mode_given(column: Any) -> tuple[Any, Any]:
    """The same, with the author's own jvp."""
    return _tangent(column.square_with_jvp)


@row(SECTION, "forward mode, a backward that is not linear")
def forward_mode_of_a_clip(column: Any) -> tuple[Any, Any]:
    """A gradient clipped to [-1, 1] has no transpose, so nothing follows from it for a tangent: an error is right."""
    clipped = column.clipped
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(constant(), constant())
        return raised(lambda: forward_ad.unpack_dual(clipped(dual))), "an error"


def _tangent(square: Any) -> tuple[Any, Any]:
    x, tangent = constant(), constant(1.0, 2.0, 3.0)
    with forward_ad.dual_level():
        got = forward_ad.unpack_dual(square(forward_ad.make_dual(x, tangent))).tangent
    return got, 5 * x * tangent
