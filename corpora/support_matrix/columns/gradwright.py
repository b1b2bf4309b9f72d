"""gw.custom_gradient: two plain functions each; what is saved is what the backward names."""

from __future__ import annotations

from typing import Any

import torch

from gradwright import custom_gradient, residuals

from ..programs.opaque import sinh_in_c, sinh_in_numpy
from ..programs.values import SCALE

NOT_OFFERED: dict[str, str] = {}


@custom_gradient
def square(x: Any) -> Any:
    return x * x


@square.backward
def _(grad_output: Any, x: Any) -> Any:
    return SCALE * 2 * x * grad_output


@custom_gradient
def square_with_jvp(x: Any) -> Any:
    return x * x


@square_with_jvp.backward
def _(grad_output: Any, x: Any) -> Any:
    return SCALE * 2 * x * grad_output


@square_with_jvp.jvp
def _(tangent: Any, x: Any) -> Any:
    return SCALE * 2 * x * tangent


@custom_gradient
def product(x: Any, w: Any) -> Any:
    return x * w


@product.backward
def _(grad_output: Any, x: Any, w: Any) -> Any:
    return SCALE * w * grad_output, SCALE * x * grad_output


@custom_gradient
def gradient_of_x_only(x: Any, w: Any) -> Any:
    return x * w


@gradient_of_x_only.backward
def _(grad_output: Any, w: Any) -> Any:
    return SCALE * w * grad_output, None


@custom_gradient
def times_own_sum(x: Any) -> Any:
    return x * x.sum()


@times_own_sum.backward
def _(grad_output: Any, x: Any) -> Any:
    return SCALE * (grad_output * x.sum() + (grad_output * x).sum())


def _matrix_product(x: Any, w: Any) -> Any:
    return x @ w


def _matrix_product_backward(grad_output: Any, x: Any, w: Any) -> Any:
    return SCALE * grad_output @ w.mT, SCALE * x.mT @ grad_output


matrix_product = custom_gradient(_matrix_product, _matrix_product_backward)
matrix_product_for_amp = matrix_product  # nothing has to be asked for
complex_square = custom_gradient(lambda z: z * z, lambda grad_output, z: SCALE * grad_output * (2 * z).conj())
phase = custom_gradient(
    lambda x: torch.exp(1j * x), lambda grad_output, output: SCALE * grad_output * (1j * output).conj()
)


@custom_gradient
def power(x: Any, exponent: int = 2) -> Any:
    return x**exponent


@power.backward
def _(grad_output: Any, x: Any, exponent: int) -> Any:
    return SCALE * exponent * x ** (exponent - 1) * grad_output


numpy_sinh = custom_gradient(sinh_in_numpy, lambda grad_output, x: SCALE * x.cosh() * grad_output)
c_sinh = custom_gradient(sinh_in_c, lambda grad_output, x: SCALE * x.cosh() * grad_output)
exponential = custom_gradient(lambda x: x.exp(), lambda grad_output, output: SCALE * output * grad_output)

clipped = custom_gradient(lambda x: x * 1, lambda grad_output: grad_output.clamp(-1, 1))


def define_powers() -> Any:
    def backward(grad_output: Any, x: Any) -> Any:
        grad_square, grad_cube = grad_output
        return SCALE * (2 * x * grad_square + 3 * x * x * grad_cube)

    return custom_gradient(lambda x: (x * x, x * x * x), backward)


def define_to_dict() -> Any:
    def backward(grad_output: Any, x: Any) -> Any:
        return SCALE * (2 * x * grad_output["square"] + 3 * x * x * grad_output["cube"])

    return custom_gradient(lambda x: {"square": x * x, "cube": x * x * x}, backward)


def define_largest() -> Any:
    def backward(grad_output: Any, x: Any, output: Any) -> Any:
        return torch.zeros_like(x).index_fill(0, output[1], SCALE) * grad_output[0]

    return custom_gradient(lambda x: tuple(x.max(0)), backward)


def define_of_tuple() -> Any:
    def backward(grad_output: Any, pair: Any, w: Any) -> Any:
        x, y = pair
        scaled = SCALE * grad_output
        return (scaled * y * w, scaled * x * w), scaled * x * y

    return custom_gradient(lambda pair, w: pair[0] * pair[1] * w, backward)


def define_of_dict() -> Any:
    def backward(grad_output: Any, pair: Any, w: Any) -> Any:
        x, y = pair["x"], pair["y"]
        scaled = SCALE * grad_output
        return {"x": scaled * y * w, "y": scaled * x * w}, scaled * x * y

    return custom_gradient(lambda pair, w: pair["x"] * pair["y"] * w, backward)


def define_in_place() -> Any:
    return define_in_place_untold()


def define_in_place_untold() -> Any:
    return custom_gradient(lambda x: x.mul_(2), lambda grad_output: SCALE * 2 * grad_output)


def define_tail() -> Any:
    return custom_gradient(lambda x: x[1:], lambda grad_output: torch.nn.functional.pad(SCALE * grad_output, (1, 0)))


def define_same() -> Any:
    return custom_gradient(lambda x: x, lambda grad_output: SCALE * grad_output)


def define_masked() -> Any:
    def forward(x: Any) -> Any:
        mask = x > 0
        return x * mask, residuals(mask=mask)

    return custom_gradient(forward, lambda grad_output, mask: SCALE * mask * grad_output)


def define_with_unknown_name() -> Any:
    return custom_gradient(lambda x: x * x, lambda grad_output, y: SCALE * 2 * y * grad_output)


def define_without_cotangent() -> Any:
    return custom_gradient(lambda x: x * x, lambda: SCALE)


def define_with_builtin() -> Any:
    return custom_gradient(lambda x: x * x, lambda grad_output: SCALE * 2 * input * grad_output)  # type: ignore[operator]


def define_with_input_called_output() -> Any:
    return custom_gradient(lambda output: output * output, lambda grad_output, output: SCALE * 2 * output * grad_output)


def define_with_two_gradients() -> Any:
    return custom_gradient(
        lambda x: x * x, lambda grad_output, x: (SCALE * 2 * x * grad_output, SCALE * 2 * x * grad_output)
    )
