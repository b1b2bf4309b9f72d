"""Inputs and outputs, views, copies, threads: programs by the names of the rows."""

from __future__ import annotations

import copy
import pickle
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import jax
import jax.numpy as jnp

from ...programs.values import SCALE
from .functions import largest, of_dict, of_tuple, power, powers, product, same, square, tail, to_dict
from .start import X, gradient_of


def several_outputs() -> Any:
    return gradient_of(lambda x: powers(x)[0] * 10 + powers(x)[1], X), SCALE * (20 * X + 3 * X * X)


def undefined_cotangent() -> Any:
    return gradient_of(lambda x: powers(x)[0], X), 5 * X


def integer_output() -> Any:
    gradient, index = jax.grad(largest, has_aux=True)(X)
    return (gradient, index, False), (jnp.array([0.0, 0.0, SCALE]), 2, False)


def _triple() -> Any:
    return X, jnp.array((3.0, 4.0, 5.0)), jnp.array((1.0, 2.0, 3.0))


def tuple_in() -> Any:
    x, y, w = _triple()
    pair, last = gradient_of(of_tuple, (x, y), w, argnums=(0, 1))
    return (*pair, last), (SCALE * y * w, SCALE * x * w, SCALE * x * y)


def dict_in() -> Any:
    x, y, w = _triple()
    pair, last = gradient_of(of_dict, {"x": x, "y": y}, w, argnums=(0, 1))
    return (pair["x"], pair["y"], last), (SCALE * y * w, SCALE * x * w, SCALE * x * y)


def dict_out() -> Any:
    def total(x: Any) -> Any:
        out = to_dict(x)
        return out["square"] * 10 + out["cube"] + x

    return gradient_of(total, X), SCALE * (20 * X + 3 * X * X) + 1


def keyword() -> Any:
    return gradient_of(lambda x: power(x, exponent=3), X), SCALE * 3 * X * X


def tensor_by_keyword() -> Any:
    w = jnp.array((1.0, 2.0, 3.0))
    got = gradient_of(lambda x, w: product(w=w, x=x), X, w, argnums=(0, 1))
    return got, (SCALE * w, SCALE * X)


def non_tensor() -> Any:
    return gradient_of(lambda x: power(x, 3), X), SCALE * 3 * X * X


def default_argument() -> Any:
    return gradient_of(power, X), 5 * X


def view_read() -> Any:
    return gradient_of(tail, X), jnp.array((0.0, SCALE, SCALE))


def view_in() -> Any:
    return gradient_of(lambda x: square(x[1:]), X), jnp.array((0.0, -5.0, 10.0))


def input_out() -> Any:
    return gradient_of(lambda x: same(x) + x, X), jnp.full(3, SCALE + 1)


def pickled() -> Any:
    return gradient_of(pickle.loads(pickle.dumps(square)), X), 5 * X


def deep_copied() -> Any:
    return gradient_of(copy.deepcopy(square), X), 5 * X


def threads() -> Any:
    def work(number: int) -> list[float]:
        return [float(gradient_of(square, jnp.array(number + step / 64))) for step in range(50)]

    with ThreadPoolExecutor(8) as pool:
        got = list(pool.map(work, range(8)))
    return got, [[5 * (number + step / 64) for step in range(50)] for number in range(8)]
