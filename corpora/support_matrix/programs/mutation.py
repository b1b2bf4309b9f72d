"""In-place writes and views."""

from __future__ import annotations

from typing import Any

import torch

from ..row import row
from .values import SCALE, leaf, raised

SECTION = "In-place and views"


@row(SECTION, "a saved input is overwritten")
def overwritten(column: Any) -> tuple[Any, Any]:
    """`y = x * 1; out = square(y); y.mul_(2); out.backward()`: 5 x of the old value, or an error, which is right."""
    x = leaf()
    y = x * 1
    out = column.square(y)
    y.mul_(2)
    return raised(lambda: (out.sum().backward(), x.grad)[1]), "an error"


@row(SECTION, "a saved output is overwritten")
def output_overwritten(column: Any) -> tuple[Any, Any]:
    """`out = exponential(x); out.mul_(2); out.backward()`: the backward needs what is no longer there."""
    x = leaf()
    out = column.exponential(x)
    out.mul_(2)
    return raised(lambda: (out.sum().backward(), x.grad)[1]), "an error"


@row(SECTION, "in-place, declared")
def in_place(column: Any) -> tuple[Any, Any]:
    """The forward doubles its input in place, and says so the way the system has it; the input is used afterwards."""
    return _doubled(column.define_in_place())


@row(SECTION, "in-place, not declared")
def in_place_untold(column: Any) -> tuple[Any, Any]:
    """The same, and nobody says so."""
    return _doubled(column.define_in_place_untold())


def _doubled(double: Any) -> tuple[Any, Any]:
    x = leaf()
    y = x * 1
    double(y)
    y.sum().backward()
    return (y, x.grad), (2 * x, torch.full_like(x, SCALE * 2))


@row(SECTION, "a view comes out, and is written to")
def view_out(column: Any) -> tuple[Any, Any]:
    """`tail(y)` is the view `y[1:]`; it is doubled in place, then y is used: y has changed too."""
    x = leaf()
    y = x * 1
    tail = column.define_tail()(y)
    tail.mul_(2)
    (y.sum() + 0 * tail.sum()).backward()
    return (y, x.grad), ([0.5, -2.0, 4.0], [1.0, 2.0 * SCALE, 2.0 * SCALE])


@row(SECTION, "a view comes out, and is read")
def view_read(column: Any) -> tuple[Any, Any]:
    """`tail(y)` again, only read."""
    x = leaf()
    column.define_tail()(x * 1).sum().backward()
    return x.grad, [0.0, SCALE, SCALE]


@row(SECTION, "a view goes in")
def view_in(column: Any) -> tuple[Any, Any]:
    """`square(x[1:])`"""
    x = leaf()
    column.square(x[1:]).sum().backward()
    return x.grad, [0.0, -5.0, 10.0]


@row(SECTION, "the input itself comes out")
def input_out(column: Any) -> tuple[Any, Any]:
    """`same(x)` returns x; its gradient is 2.5, that of x used beside it 1."""
    x = leaf()
    y = x * 1
    (column.define_same()(y) + y).sum().backward()
    return x.grad, torch.full_like(x, SCALE + 1)
