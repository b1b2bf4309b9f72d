"""Derivatives, transforms, complex numbers: programs by the names of the rows."""

from __future__ import annotations

from typing import Any

import autograd.numpy as anp
import numpy
from autograd import grad, jacobian, make_jvp, make_vjp
from autograd import hessian as hessian_of

from ...programs.values import SCALE, raised
from . import functions
from .start import X, summed


def backward() -> Any:
    return grad(summed(functions.square))(X), 5 * X


func_grad = backward


def frozen_input() -> Any:
    w = numpy.array((1.0, 2.0, 3.0))
    return (grad(summed(functions.product))(X, w), None), (SCALE * w, None)


def double_backward() -> Any:
    inner = grad(summed(functions.square))
    return grad(lambda x: anp.sum(inner(x) ** 2))(X), 50 * X


grad_of_grad = double_backward


def _tangent(square: Any) -> Any:
    tangent = numpy.array((1.0, 2.0, 3.0))
    return make_jvp(square)(X)(tangent), (X * X, 5 * X * tangent)


def forward_mode() -> Any:
    return _tangent(functions.square)


def forward_mode_given() -> Any:
    return _tangent(functions.square_with_jvp)


func_jvp = forward_mode


def forward_mode_of_a_clip() -> Any:
    return raised(lambda: make_jvp(functions.clipped)(X)(X)), "an error"


def jacrev() -> Any:
    return jacobian(functions.times_own_sum)(X), SCALE * (numpy.eye(3) * X.sum() + X[:, None])


def hessian() -> Any:
    return hessian_of(summed(functions.square))(X), 5 * numpy.eye(3)


def complex_numbers() -> Any:  # cotangents are transposed, not conjugated
    z, cotangent = numpy.array([1 + 2j, -0.5j, 3.0]), numpy.array([1j, 1.0, 2 - 1j])
    return make_vjp(functions.complex_square)(z)[0](cotangent), SCALE * cotangent * 2 * z


def real_to_complex() -> Any:
    x, cotangent = numpy.array([0.5, -1.0]), numpy.array([1j, 2.0 - 1j])
    got = make_vjp(functions.phase)(x)[0](cotangent)
    return (got, str(got.dtype)), ((SCALE * cotangent * 1j * numpy.exp(1j * x)).real, "float64")


def complex_forward_mode() -> Any:
    z, tangent = numpy.array([1 + 2j, -0.5j, 3.0]), numpy.array([1j, 1.0, 2 - 1j])
    return make_jvp(functions.complex_square)(z)(tangent)[1], SCALE * 2 * z * tangent
