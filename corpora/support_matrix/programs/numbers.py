"""Mixed precision and complex numbers."""

from __future__ import annotations

from typing import Any

import torch
from torch.autograd import forward_ad

from ..row import row
from .values import SCALE

SECTION = "AMP and complex"


@row(SECTION, "AMP, as written")
def amp(column: Any) -> tuple[Any, Any]:
    """A matrix product under `torch.autocast("cpu", torch.bfloat16)`, its backward outside; nothing was said of AMP."""
    return _under_autocast(column.matrix_product)


@row(SECTION, "AMP, asked for")
def amp_asked(column: Any) -> tuple[Any, Any]:
    """The same with what the system has for it: `custom_fwd` and `custom_bwd`, `register_autocast`."""
    return _under_autocast(column.matrix_product_for_amp)


def _under_autocast(product: Any) -> tuple[Any, Any]:
    x = torch.tensor([[0.5, -1.0], [2.0, 4.0]], requires_grad=True)  # powers of two: exact in bfloat16
    w = torch.tensor([[1.0, 2.0], [0.5, -4.0]], requires_grad=True)
    with torch.autocast("cpu", torch.bfloat16):
        out = product(x, w)
    out.float().sum().backward()
    assert x.grad is not None
    got = (out.float(), x.grad, w.grad, str(x.grad.dtype))
    ones = torch.ones(2, 2)
    return got, (x @ w, SCALE * ones @ w.T, SCALE * x.T @ ones, "torch.float32")


def _z() -> torch.Tensor:
    return torch.tensor([1 + 2j, -0.5j, 3.0], dtype=torch.complex128)


@row(SECTION, "complex")
def complex_numbers(column: Any) -> tuple[Any, Any]:
    """`z * z` with a complex cotangent; the backward conjugates, as torch's convention has it."""
    z, cotangent = _z().requires_grad_(), torch.tensor([1j, 1.0, 2 - 1j], dtype=torch.complex128)
    column.complex_square(z).backward(cotangent)
    return z.grad, SCALE * cotangent * (2 * z).conj()


@row(SECTION, "real to complex")
def real_to_complex(column: Any) -> tuple[Any, Any]:
    """`exp(i x)`, whose backward returns a complex number for a real x: the gradient is its real part."""
    x, cotangent = torch.tensor([0.5, -1.0], dtype=torch.float64, requires_grad=True), torch.tensor([1j, 2.0 - 1j])
    out = column.phase(x)
    out.backward(cotangent.to(out.dtype))
    right = (SCALE * cotangent * (1j * torch.exp(1j * x)).conj()).real
    assert x.grad is not None
    return (x.grad, str(x.grad.dtype)), (right, "torch.float64")


@row(SECTION, "complex, forward mode")
def complex_forward_mode(column: Any) -> tuple[Any, Any]:
    """A complex tangent through `z * z`, nothing given but the backward: no conjugate may be left in it."""
    z, tangent = _z(), torch.tensor([1j, 1.0, 2 - 1j], dtype=torch.complex128)
    with forward_ad.dual_level():
        got = forward_ad.unpack_dual(column.complex_square(forward_ad.make_dual(z, tangent))).tangent
    return got, SCALE * 2 * z * tangent
