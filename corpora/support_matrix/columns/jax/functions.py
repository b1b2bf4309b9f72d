"""The functions of the jax column, each a jax.custom_vjp."""

from __future__ import annotations

import ctypes
from typing import Any

import jax
import jax.numpy as jnp
import numpy

from ...programs.opaque import SINH
from ...programs.values import SCALE

jax.config.update("jax_enable_x64", True)


def custom(forward: Any, save: Any, backward: Any, **options: Any) -> Any:
    """A custom_vjp of a forward, what it saves of (inputs, output), and backward(saved, cotangent)."""
    made = jax.custom_vjp(forward, **options)

    def forward_and_residuals(*given: Any) -> Any:
        out = forward(*given)
        return out, save(given, out)

    made.defvjp(forward_and_residuals, backward)
    return made


def _inputs(given: Any, out: Any) -> Any:
    return given


@jax.custom_vjp
def square(x: Any) -> Any:
    return x * x


square.defvjp(lambda x: (x * x, x), lambda x, g: (SCALE * 2 * x * g,))
product = custom(lambda x, w: x * w, _inputs, lambda s, g: (SCALE * s[1] * g, SCALE * s[0] * g))
times_own_sum = custom(lambda x: x * x.sum(), _inputs, lambda s, g: (SCALE * (g * s[0].sum() + (g * s[0]).sum()),))
complex_square = custom(lambda z: z * z, _inputs, lambda s, g: (SCALE * g * 2 * s[0],))
phase = custom(lambda x: jnp.exp(1j * x), lambda given, out: out, lambda out, g: (SCALE * g * 1j * out,))
powers = custom(
    lambda x: (x * x, x * x * x), _inputs, lambda s, g: (SCALE * (2 * s[0] * g[0] + 3 * s[0] * s[0] * g[1]),)
)
to_dict = custom(
    lambda x: {"square": x * x, "cube": x * x * x},
    _inputs,
    lambda s, g: (SCALE * (2 * s[0] * g["square"] + 3 * s[0] * s[0] * g["cube"]),),
)
largest = custom(
    lambda x: (x.max(), x.argmax()),
    lambda given, out: (given[0], out[1]),
    lambda s, g: (jnp.zeros_like(s[0]).at[s[1]].set(SCALE * g[0]),),
)
of_tuple = custom(
    lambda pair, w: pair[0] * pair[1] * w,
    _inputs,
    lambda s, g: ((SCALE * s[0][1] * s[1] * g, SCALE * s[0][0] * s[1] * g), SCALE * s[0][0] * s[0][1] * g),
)
of_dict = custom(
    lambda pair, w: pair["x"] * pair["y"] * w,
    _inputs,
    lambda s, g: (
        {"x": SCALE * s[0]["y"] * s[1] * g, "y": SCALE * s[0]["x"] * s[1] * g},
        SCALE * s[0]["x"] * s[0]["y"] * g,
    ),
)
tail = custom(lambda x: x[1:], lambda given, out: None, lambda s, g: (jnp.pad(SCALE * g, (1, 0)),))
same = custom(lambda x: x, lambda given, out: None, lambda s, g: (SCALE * g,))
exponential = custom(jnp.exp, lambda given, out: out, lambda out, g: (SCALE * out * g,))
masked = custom(lambda x: x * (x > 0), lambda given, out: given[0] > 0, lambda mask, g: (SCALE * mask * g,))


def _power_forward(x: Any, exponent: int = 2) -> Any:
    return x**exponent


power = jax.custom_vjp(_power_forward, nondiff_argnums=(1,))
power.defvjp(
    lambda x, exponent=2: (x**exponent, x),
    lambda exponent, x, g: (SCALE * exponent * x ** (exponent - 1) * g,),
)
clipped = custom(lambda x: x * 1, lambda given, out: None, lambda s, g: (jnp.clip(g, -1, 1),))
gradient_of_x_only = custom(
    lambda x, w: x * w, lambda given, out: given[1], lambda w, g: (SCALE * w * g, jnp.zeros_like(w))
)


def _sinh_in_c(x: Any) -> Any:
    source = numpy.ascontiguousarray(x)
    out = numpy.empty_like(source)
    numbers = ctypes.c_double * source.size
    read, write = numbers.from_address(source.ctypes.data), numbers.from_address(out.ctypes.data)
    for position in range(source.size):
        write[position] = SINH(read[position])
    return out


def _called_back(sinh: Any) -> Any:
    """An opaque forward as jax has it: a callback, elementwise, so vmap may hand it the whole batch."""

    def forward(x: Any) -> Any:
        return jax.pure_callback(sinh, jax.ShapeDtypeStruct(x.shape, x.dtype), x, vmap_method="expand_dims")

    return custom(forward, _inputs, lambda s, g: (SCALE * jnp.cosh(s[0]) * g,))


numpy_sinh = _called_back(lambda x: numpy.sinh(numpy.asarray(x)))
c_sinh = _called_back(_sinh_in_c)
