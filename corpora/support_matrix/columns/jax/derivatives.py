"""Derivatives, transforms, jit, complex numbers: programs by the names of the rows."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from ...programs.values import SCALE, raised
from .functions import clipped, complex_square, phase, product, square, times_own_sum
from .start import BATCH, X, gradient_of, summed


def backward() -> Any:
    return gradient_of(square, X), 5 * X


def frozen_input() -> Any:
    w = jnp.array((1.0, 2.0, 3.0))
    return (gradient_of(product, X, w), None), (SCALE * w, None)


def double_backward() -> Any:
    return jax.grad(lambda x: (gradient_of(square, x) ** 2).sum())(X), 50 * X


grad_of_grad = double_backward


def forward_mode() -> Any:
    tangent = jnp.array((1.0, 2.0, 3.0))
    return jax.jvp(square, (X,), (tangent,)), (X * X, 5 * X * tangent)


func_jvp = forward_mode


def forward_mode_of_a_clip() -> Any:
    return raised(lambda: jax.jvp(clipped, (X,), (X,))), "an error"


def vmap() -> Any:
    return jax.vmap(times_own_sum)(BATCH), BATCH * BATCH.sum(1, keepdims=True)


def vmap_unbatched() -> Any:
    w = jnp.array((10.0, 20.0))
    return jax.vmap(product, in_axes=(1, None))(BATCH, w), (BATCH * w[:, None]).T


def per_sample() -> Any:
    right = SCALE * 2 * BATCH.sum(1, keepdims=True)
    return jax.vmap(jax.grad(summed(times_own_sum)))(BATCH), jnp.broadcast_to(right, (2, 3))


func_grad = backward


def jacrev() -> Any:
    return jax.jacrev(times_own_sum)(X), SCALE * (jnp.eye(3) * X.sum() + X[:, None])


def jacfwd() -> Any:
    return jax.jacfwd(times_own_sum)(X), SCALE * (jnp.eye(3) * X.sum() + X[:, None])


def hessian() -> Any:
    return jax.hessian(summed(square))(X), 5 * jnp.eye(3)


def compiled() -> Any:
    return jax.grad(jax.jit(lambda x: (square(x) * 3).sum()))(X), 15 * X


def compiled_dynamic() -> Any:
    function = jax.grad(jax.jit(lambda x: (square(x) * 3).sum()))
    given = [jnp.arange(1.0, size + 1) for size in (2, 3, 5)]
    return [function(x) for x in given], [15 * x for x in given]


def compiled_func_grad() -> Any:
    return jax.jit(jax.grad(summed(square)))(X), 5 * X


compiled_func_grad_in_parts = compiled_func_grad


def compiled_per_sample() -> Any:
    x = jnp.stack((X, 2 * X))
    return jax.jit(jax.vmap(jax.grad(summed(square))))(x), 5 * x


def complex_numbers() -> Any:  # jax's cotangents are transposed, not conjugated
    z, cotangent = jnp.array([1 + 2j, -0.5j, 3.0]), jnp.array([1j, 1.0, 2 - 1j])
    return jax.vjp(complex_square, z)[1](cotangent)[0], SCALE * cotangent * 2 * z


def real_to_complex() -> Any:
    x, cotangent = jnp.array([0.5, -1.0]), jnp.array([1j, 2.0 - 1j])
    (got,) = jax.vjp(phase, x)[1](cotangent)
    return (got, str(got.dtype)), ((SCALE * cotangent * 1j * jnp.exp(1j * x)).real, "float64")


def complex_forward_mode() -> Any:
    z, tangent = jnp.array([1 + 2j, -0.5j, 3.0]), jnp.array([1j, 1.0, 2 - 1j])
    return jax.jvp(complex_square, (z,), (tangent,))[1], SCALE * 2 * z * tangent
