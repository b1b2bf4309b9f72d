"""Opaque forwards, memory, mistakes: programs by the names of the rows."""

from __future__ import annotations

import weakref
from typing import Any

import jax
import jax.numpy as jnp

from ...programs.definition import AT_DEFINITION
from ...programs.values import SCALE
from .functions import c_sinh, exponential, gradient_of_x_only, masked, numpy_sinh, square
from .start import BATCH, X, gradient_of, summed


def _opaque(sinh: Any) -> Any:
    return gradient_of(sinh, X), SCALE * jnp.cosh(X)


def _opaque_per_sample(sinh: Any) -> Any:
    return jax.vmap(jax.grad(summed(sinh)))(BATCH), SCALE * jnp.cosh(BATCH)


def _opaque_compiled(sinh: Any) -> Any:
    return jax.grad(jax.jit(lambda x: (sinh(x) * 3).sum()))(X), 3 * SCALE * jnp.cosh(X)


def numpy_backward() -> Any:
    return _opaque(numpy_sinh)


def numpy_per_sample() -> Any:
    return _opaque_per_sample(numpy_sinh)


def numpy_compiled() -> Any:
    return _opaque_compiled(numpy_sinh)


def c_backward() -> Any:
    return _opaque(c_sinh)


def c_per_sample() -> Any:
    return _opaque_per_sample(c_sinh)


def c_compiled() -> Any:
    return _opaque_compiled(c_sinh)


numpy_func_grad, c_func_grad = numpy_backward, c_backward


def c_forward_mode() -> Any:
    tangent = jnp.array((1.0, 2.0, 3.0))
    return jax.jvp(c_sinh, (X,), (tangent,)), (jnp.sinh(X), SCALE * jnp.cosh(X) * tangent)


def _freed(seen: Any) -> str:
    return "freed" if seen() is None else "kept"


def only_named() -> Any:
    w = jnp.array((1.0, 2.0, 3.0))
    y = X * 1
    seen = weakref.ref(y)
    out, pull = jax.vjp(lambda y: gradient_of_x_only(y, w), y)
    del y
    freed = _freed(seen)
    return (pull(jnp.ones_like(out))[0], freed), (SCALE * w, "freed")


def freed() -> Any:
    """What a pullback holds lives as long as the pullback does; that is dropped here."""
    y = X * 1
    seen = weakref.ref(y)
    out, pull = jax.vjp(square, y)
    (gradient,) = pull(jnp.ones_like(out))
    del y, pull
    return (gradient, _freed(seen)), (5 * X, "freed")


def saved_output() -> Any:
    out, pull = jax.vjp(exponential, X)
    (gradient,) = pull(jnp.ones_like(out))
    seen = weakref.ref(out)
    del out, pull
    return (gradient, _freed(seen)), (SCALE * jnp.exp(X), "freed")


def residual() -> Any:
    out, pull = jax.vjp(masked, X)
    held = [leaf.nbytes for leaf in jax.tree.leaves(pull)]
    return (pull(jnp.ones_like(out))[0], sum(held)), (jnp.array((SCALE, 0.0, SCALE)), 3)


def _when(forward_and_residuals: Any, backward: Any, forward: Any = lambda x: x * x) -> Any:
    try:
        function = jax.custom_vjp(forward)
        function.defvjp(forward_and_residuals, backward)
    except Exception:
        return AT_DEFINITION, AT_DEFINITION
    return gradient_of(function, X), AT_DEFINITION


def unknown_name() -> Any:
    return _when(lambda x: (x * x, {"x": x}), lambda saved, g: (SCALE * 2 * saved["y"] * g,))


def wrong_arity() -> Any:
    return _when(lambda x: (x * x, x), lambda saved: (SCALE * 2 * saved,))


def builtin_name() -> Any:
    return _when(lambda x: (x * x, x), lambda saved, g: (SCALE * 2 * input * g,))  # type: ignore[operator]


def too_many() -> Any:
    return _when(lambda x: (x * x, x), lambda x, g: (SCALE * 2 * x * g, SCALE * 2 * x * g))
