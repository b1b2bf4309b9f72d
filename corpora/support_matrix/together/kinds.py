"""Kinds of custom gradients, and beside each the same by torch's own operators.

``2.5 y - 1.5 y.detach()`` has the value of y and 2.5 times its derivative, at all orders.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch.nn.functional import pad

from gradwright import custom_gradient, residuals

from ..programs.values import SCALE


@dataclass(frozen=True)
class Kind:
    """A custom gradient, and the same by torch's operators: functions of ``inputs`` vectors to a tuple of tensors."""

    name: str
    ours: Callable[..., tuple[Any, ...]]
    right: Callable[..., tuple[Any, ...]]
    inputs: int = 1


def scaled(y: Any) -> Any:
    return SCALE * y - ((SCALE - 1) * y).detach()


def scaled_exp(x: Any) -> Any:
    """The backward multiplies by the output, whose own derivative is 2.5 times itself: 2.5, 6.25, ..."""
    return (SCALE * (x - x.detach())).exp() * x.exp().detach()


def _given_or_thrice(x: Any, w: Any = None) -> Any:
    return 3 * x if w is None else x * w


def _given_or_thrice_backward(g: Any, x: Any, w: Any) -> Any:
    return (SCALE * 3 * g, None) if w is None else (SCALE * w * g, SCALE * x * g)


def _by_name_only(x: Any, *, w: Any) -> Any:
    return x * w


def _with_mask(x: Any) -> Any:
    mask = x > 0
    return x * mask, residuals(mask=mask, count=3)


def _with_sine(x: Any) -> Any:
    sine = x.sin()
    return sine * sine, residuals(sine=sine)


def _twice_the_same(x: Any) -> Any:
    y = x * x
    return y, y


def _of_three(g: Any, xs: Any) -> Any:
    x, y, z = xs
    return [SCALE * y * z * g, SCALE * x * z * g, SCALE * x * y * g]


INDEX, MASK = torch.tensor([2, 0, 0]), torch.tensor([True, False, True])

square = custom_gradient(lambda x: x * x, lambda g, x: SCALE * 2 * x * g)
cube = custom_gradient(lambda x, scale=1.0: scale * x**3, lambda g, x, scale: SCALE * scale * 3 * x * x * g)
exponential = custom_gradient(lambda x: x.exp(), lambda g, output: SCALE * output * g)
both_saved = custom_gradient(lambda x: x * x, lambda g, x, output: SCALE * 2 * g * (x + 0 * output))
own_sum = custom_gradient(lambda x: x * x.sum(), lambda g, x: SCALE * (g * x.sum() + (g * x).sum()))
product = custom_gradient(lambda x, w: x * w, lambda g, x, w: (SCALE * w * g, SCALE * x * g))
named = custom_gradient(lambda x, w: x * w, lambda g, x, w: {"w": SCALE * x * g, "x": SCALE * w * g})
only_w = custom_gradient(lambda x, w: x * w, lambda g, x: (None, SCALE * x.detach() * g))
given_or_thrice = custom_gradient(_given_or_thrice, _given_or_thrice_backward)
by_name_only = custom_gradient(_by_name_only, lambda g, x, w: {"x": SCALE * w * g, "w": SCALE * x * g})
powers = custom_gradient(lambda x: (x * x, x**3), lambda g, x: SCALE * (2 * x * g[0] + 3 * x * x * g[1]))
to_dict = custom_gradient(lambda x: {"a": x * x, "b": x**3}, lambda g, x: SCALE * (2 * x * g["a"] + 3 * x * x * g["b"]))
nested = custom_gradient(
    lambda x: {"a": (x * x, [x**3]), "n": 7}, lambda g, x: SCALE * (2 * x * g["a"][0] + 3 * x * x * g["a"][1][0])
)
of_tuple = custom_gradient(
    lambda pair, w: pair[0] * pair[1] * w,
    lambda g, pair, w: ((SCALE * pair[1] * w * g, SCALE * pair[0] * w * g), SCALE * pair[0] * pair[1] * g),
)
of_dict = custom_gradient(
    lambda pair: pair["x"] * pair["y"],
    lambda g, pair: {"x": SCALE * pair["y"] * g, "y": SCALE * pair["x"] * g},
)
of_list = custom_gradient(lambda xs: xs[0] * xs[1] * xs[2], _of_three)
gather = custom_gradient(
    lambda x, index: x[index], lambda g, x, index: torch.zeros_like(x).index_add(0, index, SCALE * g)
)
masked = custom_gradient(lambda x, mask: x * mask, lambda g, mask: SCALE * g * mask)
broadcast = custom_gradient(
    lambda x, w: x * w.sum(), lambda g, x, w: (SCALE * g * w.sum(), SCALE * (g * x).sum().expand_as(w))
)
largest = custom_gradient(
    lambda x: tuple(x.max(0)),
    lambda g, x, output: torch.zeros_like(x).scatter(0, output[1][None], SCALE) * g[0],
)
relu = custom_gradient(_with_mask, lambda g, mask, count: SCALE * mask * g * (count == 3))
sine = custom_gradient(_with_sine, lambda g, x, sine: SCALE * 2 * sine * x.cos() * g)
linear = custom_gradient(lambda x: 3 * x.flip(0), lambda g: SCALE * 3 * g.flip(0))
view = custom_gradient(lambda x: (x * 2)[1:], lambda g: SCALE * 2 * pad(g, (1, 0)))
twice_the_same = custom_gradient(_twice_the_same, lambda g, x: SCALE * 2 * x * (g[0] + g[1]))
with_its_input = custom_gradient(lambda x: (x, x * x), lambda g, x: SCALE * (g[0] + 2 * x * g[1]))
of_a_custom = custom_gradient(lambda x: square(x) * x, lambda g, x: SCALE * 3 * x * x * g)
per_input = custom_gradient(lambda x, w: x * w)
per_input.vjp("x")(lambda g, w: SCALE * w * g)
per_input.vjp("w")(lambda g, x: SCALE * x * g)
with_jvp = custom_gradient(lambda x: x * x, lambda g, x: SCALE * 2 * x * g)
with_jvp.jvp(lambda tangent, x: SCALE * 2 * x * tangent)

KINDS = (
    Kind("input saved", lambda x: (square(x),), lambda x: (scaled(x * x),)),
    Kind("output saved", lambda x: (exponential(x),), lambda x: (scaled_exp(x),)),
    Kind("both saved", lambda x: (both_saved(x),), lambda x: (scaled(x * x),)),
    Kind("nothing saved", lambda x: (linear(x),), lambda x: (scaled(3 * x.flip(0)),)),
    Kind("mask handed over", lambda x: (relu(x),), lambda x: (scaled(x.relu()),)),
    Kind("float handed over", lambda x: (sine(x),), lambda x: (scaled(x.sin() ** 2),)),
    Kind("keyword argument", lambda x: (cube(x, scale=2.0),), lambda x: (scaled(2 * x**3),)),
    Kind("reduction", lambda x: (own_sum(x),), lambda x: (scaled(x * x.sum()),)),
    Kind("two inputs", lambda x, w: (product(x, w),), lambda x, w: (scaled(x * w),), 2),
    Kind("the same tensor twice", lambda x: (product(x, x),), lambda x: (scaled(x * x),)),
    Kind("a vjp per input", lambda x, w: (per_input(x, w),), lambda x, w: (scaled(x * w),), 2),
    Kind("gradients by name", lambda x, w: (named(x, w),), lambda x, w: (scaled(x * w),), 2),
    Kind("one gradient is None", lambda x, w: (only_w(x, w),), lambda x, w: (scaled(x.detach() * w),), 2),
    Kind("None for a tensor", lambda x: (given_or_thrice(x, None),), lambda x: (scaled(3 * x),)),
    Kind("tensor for None", lambda x, w: (given_or_thrice(x, w),), lambda x, w: (scaled(x * w),), 2),
    Kind("keyword-only tensor", lambda x, w: (by_name_only(x, w=w),), lambda x, w: (scaled(x * w),), 2),
    Kind("broadcast", lambda x, w: (broadcast(x, w),), lambda x, w: (scaled(x * w.sum()),), 2),
    Kind("index in", lambda x: (gather(x, INDEX),), lambda x: (scaled(x[INDEX]),)),
    Kind("mask in", lambda x: (masked(x, MASK),), lambda x: (scaled(x * MASK),)),
    Kind("tuple in", lambda x, w: (of_tuple((x, w), w),), lambda x, w: (scaled(x * w * w),), 2),
    Kind("dict in", lambda x, w: (of_dict({"x": x, "y": w}),), lambda x, w: (scaled(x * w),), 2),
    Kind("list in", lambda x, w: (of_list([x, w, x]),), lambda x, w: (scaled(x * w * x),), 2),
    Kind("two outputs", lambda x: powers(x), lambda x: (scaled(x * x), scaled(x**3))),
    Kind("one of two outputs", lambda x: (powers(x)[1],), lambda x: (scaled(x**3),)),
    Kind("dict out", lambda x: tuple(to_dict(x).values()), lambda x: (scaled(x * x), scaled(x**3))),
    Kind("tree out", lambda x: (nested(x)["a"][0], nested(x)["a"][1][0]), lambda x: (scaled(x * x), scaled(x**3))),
    Kind("integer out", lambda x: (largest(x)[0][None],), lambda x: (scaled(x.max(0)[0][None]),)),
    Kind("the same out twice", lambda x: twice_the_same(x), lambda x: (scaled(x * x), scaled(x * x))),
    Kind("input out", lambda x: with_its_input(x), lambda x: (scaled(x * 1), scaled(x * x))),
    Kind("view out", lambda x: (view(x),), lambda x: (scaled((2 * x)[1:]),)),
    Kind("jvp given", lambda x: (with_jvp(x),), lambda x: (scaled(x * x),)),
    Kind("one after another", lambda x: (cube(square(x)),), lambda x: (scaled(scaled(x * x) ** 3),)),
    Kind("one inside another", lambda x: (of_a_custom(x),), lambda x: (scaled(x**3),)),
)
