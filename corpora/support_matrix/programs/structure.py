"""What goes in and what comes out: several outputs, tuples, dicts, keywords, cotangents that never came."""

from __future__ import annotations

from typing import Any

import torch

from ..row import row
from .values import SCALE, leaf

SECTION = "Inputs and outputs"


@row(SECTION, "several outputs")
def several_outputs(column: Any) -> tuple[Any, Any]:
    """`x ** 2` and `x ** 3` of one function, each with a cotangent of its own."""
    x = leaf()
    square, cube = column.define_powers()(x)
    (square * 10 + cube).sum().backward()
    return x.grad, SCALE * (20 * x + 3 * x * x)


@row(SECTION, "an undefined cotangent")
def undefined_cotangent(column: Any) -> tuple[Any, Any]:
    """The same, and the second output is never used."""
    x = leaf()
    square, _ = column.define_powers()(x)
    square.sum().backward()
    return x.grad, 5 * x


@row(SECTION, "an integer output")
def integer_output(column: Any) -> tuple[Any, Any]:
    """The largest value and its index."""
    x = leaf()
    value, index = column.define_largest()(x)
    value.backward()
    return (x.grad, index, index.requires_grad), (torch.tensor([0.0, 0.0, SCALE]), 2, False)


@row(SECTION, "a tuple of tensors in")
def tuple_in(column: Any) -> tuple[Any, Any]:
    """`f((x, y), w)`, the product of the three: are the gradients of x and y there?"""
    x, y, w = leaf(), leaf(3.0, 4.0, 5.0), leaf(1.0, 2.0, 3.0)
    column.define_of_tuple()((x, y), w).sum().backward()
    return (x.grad, y.grad, w.grad), (SCALE * y * w, SCALE * x * w, SCALE * x * y)


@row(SECTION, "a dict of tensors in")
def dict_in(column: Any) -> tuple[Any, Any]:
    """`f({"x": x, "y": y}, w)`, the same product."""
    x, y, w = leaf(), leaf(3.0, 4.0, 5.0), leaf(1.0, 2.0, 3.0)
    column.define_of_dict()({"x": x, "y": y}, w).sum().backward()
    return (x.grad, y.grad, w.grad), (SCALE * y * w, SCALE * x * w, SCALE * x * y)


@row(SECTION, "a dict of tensors out")
def dict_out(column: Any) -> tuple[Any, Any]:
    """`f(x)` is `{"square": ..., "cube": ...}`, and x goes past it too: are all its gradients there?"""
    x = leaf()
    out = column.define_to_dict()(x)
    (out["square"] * 10 + out["cube"] + x).sum().backward()
    return x.grad, SCALE * (20 * x + 3 * x * x) + 1


@row(SECTION, "a keyword argument")
def keyword(column: Any) -> tuple[Any, Any]:
    """`power(x, exponent=3)`"""
    x = leaf()
    column.power(x, exponent=3).sum().backward()
    return x.grad, SCALE * 3 * x * x


@row(SECTION, "a tensor by keyword")
def tensor_by_keyword(column: Any) -> tuple[Any, Any]:
    """`product(w=w, x=x)`"""
    x, w = leaf(), leaf(1.0, 2.0, 3.0)
    column.product(w=w, x=x).sum().backward()
    return (x.grad, w.grad), (SCALE * w, SCALE * x)


@row(SECTION, "a non-tensor argument")
def non_tensor(column: Any) -> tuple[Any, Any]:
    """`power(x, 3)`"""
    x = leaf()
    column.power(x, 3).sum().backward()
    return x.grad, SCALE * 3 * x * x


@row(SECTION, "a default argument")
def default_argument(column: Any) -> tuple[Any, Any]:
    """`power(x)`, the exponent 2 by default."""
    x = leaf()
    column.power(x).sum().backward()
    return x.grad, 5 * x
