"""torch.library.custom_op with register_fake, register_autograd, and register_vmap or register_autocast where asked.

Backward and setup_context are those of the Functions.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.library import custom_op

from ..programs.opaque import sinh_in_c, sinh_in_numpy
from . import mistakes
from . import setup_context as functions

NOT_OFFERED = {"forward_mode_given": "no jvp can be registered", "input_called_output": "names mean nothing to it"}


def like_first(x: Tensor, *_: Any, **__: Any) -> Tensor:
    return torch.empty_like(x)


def registered(function: Any, forward: Any, fake: Any = like_first, name: str = "") -> Any:
    """An op of a forward, with the backward and setup_context of a Function."""
    made = custom_op(f"matrix::{name or forward.__name__}", forward, mutates_args=())
    made.register_fake(fake)
    made.register_autograd(function.backward, setup_context=function.setup_context)
    return made


def _square(x: Tensor) -> Tensor:
    return x * x


def _product(x: Tensor, w: Tensor) -> Tensor:
    return x * w


def _gradient_of_x_only(x: Tensor, w: Tensor) -> Tensor:
    return x * w


def _times_own_sum(x: Tensor) -> Tensor:
    return x * x.sum()


def _matrix_product(x: Tensor, w: Tensor) -> Tensor:
    return x @ w


def _complex_square(z: Tensor) -> Tensor:
    return z * z


def _phase(x: Tensor) -> Tensor:
    return torch.exp(1j * x)


def _powers(x: Tensor) -> tuple[Tensor, Tensor]:
    return x * x, x * x * x


def _largest(x: Tensor) -> tuple[Tensor, Tensor]:
    value, index = x.max(0)
    return value, index


def _of_tuple(pair: Sequence[Tensor], w: Tensor) -> Tensor:
    return pair[0] * pair[1] * w


def _of_dict(pair: dict[str, Tensor], w: Tensor) -> Tensor:
    return pair["x"] * pair["y"] * w


def _to_dict(x: Tensor) -> dict[str, Tensor]:
    return {"square": x * x, "cube": x * x * x}


def _power(x: Tensor, exponent: int = 2) -> Tensor:
    return x**exponent


def _in_place(x: Tensor) -> None:
    x.mul_(2)


def _in_place_untold(x: Tensor) -> Tensor:
    return x.mul_(2)


def _tail(x: Tensor) -> Tensor:
    return x[1:]


def _same(x: Tensor) -> Tensor:
    return x


def _numpy_sinh(x: Tensor) -> Tensor:
    return sinh_in_numpy(x)


def _c_sinh(x: Tensor) -> Tensor:
    return sinh_in_c(x)


def _exponential(x: Tensor) -> Tensor:
    return x.exp()


def _clipped(x: Tensor) -> Tensor:
    return x * 1


def _masked(x: Tensor) -> tuple[Tensor, Tensor]:
    mask = x > 0
    return x * mask, mask


square = registered(functions.Square, _square)
product = registered(functions.Product, _product)
gradient_of_x_only = registered(functions.GradientOfXOnly, _gradient_of_x_only)
times_own_sum = registered(functions.TimesOwnSum, _times_own_sum)
matrix_product = registered(functions.MatrixProduct, _matrix_product, torch.matmul)
matrix_product_for_amp = registered(functions.MatrixProduct, _matrix_product, torch.matmul, "_matrix_product_for_amp")
matrix_product_for_amp.register_autocast("cpu", torch.bfloat16)
complex_square = registered(functions.ComplexSquare, _complex_square)
phase = registered(functions.Phase, _phase, lambda x: torch.empty_like(x, dtype=torch.complex128))
power = registered(functions.Power, _power)
numpy_sinh = registered(functions.NumpySinh, _numpy_sinh)
c_sinh = registered(functions.CSinh, _c_sinh)
exponential = registered(functions.Exponential, _exponential)
clipped = registered(functions.Clipped, _clipped)


@times_own_sum.register_vmap
def _times_own_sum_of_batch(info: Any, in_dims: Any, x: Tensor) -> Any:
    return torch.stack([times_own_sum(sample) for sample in x.unbind(in_dims[0])]), 0


@product.register_vmap
def _product_of_batch(info: Any, in_dims: Any, x: Tensor, w: Tensor) -> Any:
    x, w = (value if place is None else value.movedim(place, 0) for value, place in zip((x, w), in_dims, strict=True))
    return product(*torch.broadcast_tensors(x, w)), 0


def define_powers() -> Any:
    return registered(functions.Powers, _powers, lambda x: (torch.empty_like(x), torch.empty_like(x)))


def define_largest() -> Any:
    return registered(functions.Largest, _largest, lambda x: (x.new_empty(()), x.new_empty((), dtype=torch.int64)))


def define_of_tuple() -> Any:
    return registered(functions.OfTuple, _of_tuple, lambda pair, w: torch.empty_like(w))


def define_of_dict() -> Any:
    return registered(functions.OfDict, _of_dict, lambda pair, w: torch.empty_like(w))


def define_to_dict() -> Any:
    return registered(functions.ToDict, _to_dict, _to_dict)


def define_in_place() -> Any:
    made = custom_op("matrix::in_place", _in_place, mutates_args={"x"})
    made.register_autograd(functions.InPlace.backward, setup_context=functions.InPlace.setup_context)
    return made


def define_in_place_untold() -> Any:
    return registered(functions.InPlaceUntold, _in_place_untold)


def define_tail() -> Any:
    return registered(functions.Tail, _tail, lambda x: x.new_empty(x.shape[0] - 1))


def define_same() -> Any:
    return registered(functions.Same, _same)


def define_masked() -> Any:
    made = registered(functions.Masked, _masked, lambda x: (torch.empty_like(x), torch.empty_like(x).bool()))
    return lambda x: made(x)[0]


def _mistaken(mistake: Any) -> Any:
    made = custom_op(f"matrix::{mistake.__name__}", _square, mutates_args=())
    made.register_autograd(mistake.backward, setup_context=functions.Square.setup_context)
    return made


def define_with_unknown_name() -> Any:
    return _mistaken(mistakes.UnknownName)


def define_without_cotangent() -> Any:
    return _mistaken(mistakes.WithoutCotangent)


def define_with_builtin() -> Any:
    return _mistaken(mistakes.Builtin)


def define_with_two_gradients() -> Any:
    return _mistaken(mistakes.TwoGradients)
