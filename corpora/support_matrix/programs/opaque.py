"""Forwards that no tracer can look into: NumPy, and machine code that is handed pointers.

Triton needs a GPU, so no cell of it is run here.
"""

from __future__ import annotations

import ctypes
import ctypes.util
from typing import Any

import torch
from torch import func

from ..row import row
from .compiled import whole
from .transforms import summed
from .values import SCALE, constant, leaf

SECTION = "Opaque forwards"
SINH = ctypes.CDLL(ctypes.util.find_library("m")).sinh
SINH.restype, SINH.argtypes = ctypes.c_double, [ctypes.c_double]


def sinh_in_numpy(x: torch.Tensor) -> torch.Tensor:
    """sinh by NumPy."""
    import numpy

    return torch.from_numpy(numpy.sinh(x.detach().numpy()))


def sinh_in_c(x: torch.Tensor) -> torch.Tensor:
    """sinh by the C library, element by element, from pointer to pointer: the part of a C++ extension."""
    source = x.detach().contiguous()
    out = torch.empty_like(source)
    numbers = ctypes.c_double * source.numel()
    read, write = numbers.from_address(source.data_ptr()), numbers.from_address(out.data_ptr())
    for position in range(source.numel()):
        write[position] = SINH(read[position])
    return out


def _reverse(sinh: Any) -> tuple[Any, Any]:
    x = leaf()
    sinh(x).sum().backward()
    return x.grad, SCALE * x.cosh()


def _func_grad(sinh: Any) -> tuple[Any, Any]:
    x = constant()
    return func.grad(summed(sinh))(x), SCALE * x.cosh()


def _compiled(sinh: Any) -> tuple[Any, Any]:
    x = leaf()
    whole(lambda x: (sinh(x) * 3).sum())(x).backward()
    return x.grad, 3 * SCALE * x.cosh()


def _per_sample(sinh: Any) -> tuple[Any, Any]:
    x = torch.stack((constant(), 2 * constant()))
    return func.vmap(func.grad(summed(sinh)))(x), SCALE * x.cosh()


@row(SECTION, "NumPy")
def numpy_backward(column: Any) -> tuple[Any, Any]:
    """`sinh` by NumPy, the backward in torch."""
    return _reverse(column.numpy_sinh)


@row(SECTION, "NumPy, torch.func.grad")
def numpy_func_grad(column: Any) -> tuple[Any, Any]:
    """`grad` of it."""
    return _func_grad(column.numpy_sinh)


@row(SECTION, "NumPy, vmap of grad")
def numpy_per_sample(column: Any) -> tuple[Any, Any]:
    """Per-sample gradients of it."""
    return _per_sample(column.numpy_sinh)


@row(SECTION, "NumPy, compile")
def numpy_compiled(column: Any) -> tuple[Any, Any]:
    """It in a compiled function, no graph break allowed."""
    return _compiled(column.numpy_sinh)


@row(SECTION, "C")
def c_backward(column: Any) -> tuple[Any, Any]:
    """`sinh` of the C library by pointers, the backward in torch."""
    return _reverse(column.c_sinh)


@row(SECTION, "C, torch.func.grad")
def c_func_grad(column: Any) -> tuple[Any, Any]:
    """`grad` of it."""
    return _func_grad(column.c_sinh)


@row(SECTION, "C, vmap of grad")
def c_per_sample(column: Any) -> tuple[Any, Any]:
    """Per-sample gradients of it."""
    return _per_sample(column.c_sinh)


@row(SECTION, "C, compile")
def c_compiled(column: Any) -> tuple[Any, Any]:
    """It in a compiled function, no graph break allowed."""
    return _compiled(column.c_sinh)


@row(SECTION, "C, forward mode")
def c_forward_mode(column: Any) -> tuple[Any, Any]:
    """Its tangent, nothing given but the backward: without one, a tangent of zeros would be silent."""
    x, tangent = constant(), constant(1.0, 2.0, 3.0)
    return func.jvp(column.c_sinh, (x,), (tangent,)), (x.sinh(), SCALE * x.cosh() * tangent)
