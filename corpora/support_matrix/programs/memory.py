"""What is kept between forward and backward, and how long."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import torch

from ..row import row
from .values import SCALE, constant, leaf

SECTION = "Memory"


@row(SECTION, "only the named tensors are saved")
def only_named(column: Any) -> tuple[Any, Any]:
    """`x * w` with w constant: the backward needs w alone; x is freed with its last name."""
    x, w = leaf(), constant(1.0, 2.0, 3.0)
    y = x * 1
    seen = weakref.ref(y)
    out = column.gradient_of_x_only(y, w)
    with _no_collector():
        del y
        kept = seen() is not None
    out.sum().backward()
    return (x.grad, _said(kept)), (SCALE * w, "freed")


@row(SECTION, "what is saved goes through saved_tensors_hooks")
def saved_bytes(column: Any) -> tuple[Any, Any]:
    """The same, counted as off-loading and profilers count: 24 bytes of w."""
    packed: list[int] = []

    def pack(saved: torch.Tensor) -> torch.Tensor:
        packed.append(saved.nbytes)
        return saved

    y = leaf() * 1
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda saved: saved):
        column.gradient_of_x_only(y, constant(1.0, 2.0, 3.0))
    return sum(packed), 24


@row(SECTION, "freed by the backward")
def freed(column: Any) -> tuple[Any, Any]:
    """`square` saves y; after the backward y is freed though the output lives on."""
    x = leaf()
    y = x * 1
    seen = weakref.ref(y)
    out = column.square(y)
    out.sum().backward()
    with _no_collector():
        del y
        kept = seen() is not None
    return (x.grad, _said(kept)), (5 * x, "freed")


@row(SECTION, "a saved output is no cycle")
def saved_output(column: Any) -> tuple[Any, Any]:
    """`exp`, whose backward needs the output: it is freed with its last name, without the garbage collector."""
    x = leaf()
    out = column.exponential(x)
    (gradient,) = torch.autograd.grad(out.sum(), x, retain_graph=True)
    seen = weakref.ref(out)
    with _no_collector():
        del out
        kept = seen() is not None
    return (gradient, _said(kept)), (SCALE * x.exp(), "freed")


@row(SECTION, "a residual of the forward")
def residual(column: Any) -> tuple[Any, Any]:
    """`relu` hands its boolean mask to the backward: the gradient is right, and 3 bytes are saved."""
    packed: list[int] = []

    def pack(saved: torch.Tensor) -> torch.Tensor:
        packed.append(saved.nbytes)
        return saved

    x = leaf()
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda saved: saved):
        out = column.define_masked()(x)
    out.sum().backward()
    return (x.grad, sum(packed)), ([SCALE, 0.0, SCALE], 3)


def _said(kept: bool) -> str:
    return "kept" if kept else "freed"


class _no_collector:  # noqa: N801
    """What lives now and dies inside, dies by its reference count."""

    def __enter__(self) -> None:
        gc.disable()

    def __exit__(self, *_: object) -> None:
        gc.enable()
