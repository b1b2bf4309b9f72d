"""The functions of the HIPS autograd column, each a primitive with defvjp."""

from __future__ import annotations

import ctypes
from typing import Any

import autograd.numpy as anp
import numpy
from autograd.extend import defjvp, defvjp, primitive

from ...programs.opaque import SINH
from ...programs.values import SCALE


def custom(forward: Any, *vjps: Any) -> Any:
    """A primitive of a forward, and vjp(ans, *inputs)(cotangent) per input."""
    made = primitive(forward)
    defvjp(made, *vjps)
    return made


@primitive
def square(x: Any) -> Any:
    return x * x


defvjp(square, lambda ans, x: lambda g: SCALE * 2 * x * g)
square_with_jvp = custom(lambda x: x * x, lambda ans, x: lambda g: SCALE * 2 * x * g)
defjvp(square_with_jvp, lambda tangent, ans, x: SCALE * 2 * x * tangent)
product = custom(
    lambda x, w: x * w, lambda ans, x, w: lambda g: SCALE * w * g, lambda ans, x, w: lambda g: SCALE * x * g
)
gradient_of_x_only = custom(lambda x, w: x * w, lambda ans, x, w: lambda g: SCALE * w * g, None)
times_own_sum = custom(
    lambda x: x * x.sum(), lambda ans, x: lambda g: SCALE * (g * anp.sum(x) + anp.sum(g * x) * anp.ones(x.shape))
)
complex_square = custom(lambda z: z * z, lambda ans, z: lambda g: SCALE * g * 2 * z)
phase = custom(lambda x: numpy.exp(1j * x), lambda ans, x: lambda g: SCALE * g * 1j * ans)
powers = custom(lambda x: (x * x, x * x * x), lambda ans, x: lambda g: SCALE * (2 * x * g[0] + 3 * x * x * g[1]))
to_dict = custom(
    lambda x: {"square": x * x, "cube": x * x * x},
    lambda ans, x: lambda g: SCALE * (2 * x * g["square"] + 3 * x * x * g["cube"]),
)
largest = custom(
    lambda x: (x.max(), x.argmax()),
    lambda ans, x: lambda g: SCALE * g[0] * (numpy.arange(len(x)) == ans[1]),
)
of_tuple = custom(
    lambda pair, w: pair[0] * pair[1] * w,
    lambda ans, pair, w: lambda g: (SCALE * pair[1] * w * g, SCALE * pair[0] * w * g),
    lambda ans, pair, w: lambda g: SCALE * pair[0] * pair[1] * g,
)
of_dict = custom(
    lambda pair, w: pair["x"] * pair["y"] * w,
    lambda ans, pair, w: lambda g: {"x": SCALE * pair["y"] * w * g, "y": SCALE * pair["x"] * w * g},
    lambda ans, pair, w: lambda g: SCALE * pair["x"] * pair["y"] * g,
)
power = custom(
    lambda x, exponent=2: x**exponent,
    lambda ans, x, exponent=2: lambda g: SCALE * exponent * x ** (exponent - 1) * g,
)
clipped = custom(lambda x: x * 1, lambda ans, x: lambda g: anp.clip(g, -1, 1))
tail = custom(lambda x: x[1:], lambda ans, x: lambda g: anp.concatenate((anp.zeros(1), SCALE * g)))
same = custom(lambda x: x, lambda ans, x: lambda g: SCALE * g)
exponential = custom(numpy.exp, lambda ans, x: lambda g: SCALE * ans * g)


def _doubled(x: Any) -> Any:
    x *= 2
    return x


in_place_untold = custom(_doubled, lambda ans, x: lambda g: SCALE * 2 * g)


def _sinh_in_c(x: Any) -> Any:
    source = numpy.ascontiguousarray(x)
    out = numpy.empty_like(source)
    numbers = ctypes.c_double * source.size
    read, write = numbers.from_address(source.ctypes.data), numbers.from_address(out.ctypes.data)
    for position in range(source.size):
        write[position] = SINH(read[position])
    return out


numpy_sinh = custom(numpy.sinh, lambda ans, x: lambda g: SCALE * anp.cosh(x) * g)
c_sinh = custom(_sinh_in_c, lambda ans, x: lambda g: SCALE * anp.cosh(x) * g)
