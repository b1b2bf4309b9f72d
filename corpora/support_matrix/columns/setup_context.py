"""torch.autograd.Function with `forward` and `setup_context` apart, `generate_vmap_rule = True`, as torch.func asks."""

from __future__ import annotations

from typing import Any

import torch

from ..programs.opaque import sinh_in_c, sinh_in_numpy
from ..programs.values import SCALE
from . import backwards, mistakes
from .mistakes import applied, later
from .saving import SavesInputs, SavesNothing, SavesOutput, SavesSecond

NOT_OFFERED = {"input_called_output": "names mean nothing to it"}


class Square(SavesInputs, backwards.Square):
    @staticmethod
    def forward(x: Any) -> Any:
        return x * x


class SquareWithJvp(backwards.SquareWithJvp):
    generate_vmap_rule = False  # torch: "or you may define a vmap staticmethod", not beside a jvp of one's own

    @staticmethod
    def forward(x: Any) -> Any:
        return x * x

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(*inputs)
        ctx.save_for_forward(*inputs)


class Product(SavesInputs, backwards.Product):
    @staticmethod
    def forward(x: Any, w: Any) -> Any:
        return x * w


class GradientOfXOnly(SavesSecond, backwards.GradientOfXOnly):
    @staticmethod
    def forward(x: Any, w: Any) -> Any:
        return x * w


class TimesOwnSum(SavesInputs, backwards.TimesOwnSum):
    @staticmethod
    def forward(x: Any) -> Any:
        return x * x.sum()


class MatrixProduct(SavesInputs, backwards.MatrixProduct):
    @staticmethod
    def forward(x: Any, w: Any) -> Any:
        return x @ w


class MatrixProductForAmp(SavesInputs, backwards.MatrixProductForAmp):
    @staticmethod
    @torch.amp.custom_fwd(device_type="cpu")
    def forward(x: Any, w: Any) -> Any:
        return x @ w


class ComplexSquare(SavesInputs, backwards.ComplexSquare):
    @staticmethod
    def forward(z: Any) -> Any:
        return z * z


class Phase(SavesOutput, backwards.Phase):
    @staticmethod
    def forward(x: Any) -> Any:
        return torch.exp(1j * x)


class Powers(SavesInputs, backwards.Powers):
    @staticmethod
    def forward(x: Any) -> Any:
        return x * x, x * x * x


class Largest(backwards.Largest):
    generate_vmap_rule = True

    @staticmethod
    def forward(x: Any) -> Any:
        value, index = x.max(0)
        return value, index

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.mark_non_differentiable(output[1])
        ctx.save_for_backward(inputs[0], output[1])


class OfTuple(backwards.OfTuple):
    generate_vmap_rule = True

    @staticmethod
    def forward(pair: Any, w: Any) -> Any:
        return pair[0] * pair[1] * w

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(*inputs[0], inputs[1])


class OfDict(backwards.OfDict):
    generate_vmap_rule = True

    @staticmethod
    def forward(pair: Any, w: Any) -> Any:
        return pair["x"] * pair["y"] * w

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(inputs[0]["x"], inputs[0]["y"], inputs[1])


class ToDict(SavesInputs, backwards.ToDict):
    @staticmethod
    def forward(x: Any) -> Any:
        return {"square": x * x, "cube": x * x * x}


class Power(backwards.Power):
    generate_vmap_rule = True

    @staticmethod
    def forward(x: Any, exponent: Any = 2) -> Any:
        return x**exponent

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(inputs[0])
        ctx.exponent = inputs[1]


class InPlace(backwards.InPlace):
    generate_vmap_rule = True

    @staticmethod
    def forward(x: Any) -> Any:
        return x.mul_(2)

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.mark_dirty(inputs[0])


class InPlaceUntold(SavesNothing, backwards.InPlaceUntold):
    @staticmethod
    def forward(x: Any) -> Any:
        return x.mul_(2)


class Tail(SavesNothing, backwards.Tail):
    @staticmethod
    def forward(x: Any) -> Any:
        return x[1:]


class Same(SavesNothing, backwards.Same):
    @staticmethod
    def forward(x: Any) -> Any:
        return x


class NumpySinh(SavesInputs, backwards.NumpySinh):
    generate_vmap_rule = False

    @staticmethod
    def forward(x: Any) -> Any:
        return sinh_in_numpy(x)

    @staticmethod
    def vmap(info: Any, in_dims: Any, x: Any) -> Any:
        return NumpySinh.apply(x), in_dims[0]


class CSinh(SavesInputs, backwards.CSinh):
    generate_vmap_rule = False

    @staticmethod
    def forward(x: Any) -> Any:
        return sinh_in_c(x)

    @staticmethod
    def vmap(info: Any, in_dims: Any, x: Any) -> Any:
        return CSinh.apply(x), in_dims[0]


class Exponential(SavesOutput, backwards.Exponential):
    @staticmethod
    def forward(x: Any) -> Any:
        return x.exp()


class Masked(backwards.Masked):
    generate_vmap_rule = True

    @staticmethod
    def forward(x: Any) -> Any:
        mask = x > 0
        return x * mask, mask

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.mark_non_differentiable(output[1])
        ctx.save_for_backward(output[1])

    @staticmethod
    def backward(ctx: Any, grad_output: Any, grad_mask: Any) -> Any:  # type: ignore[override]
        (mask,) = ctx.saved_tensors
        return SCALE * mask * grad_output


class Clipped(SavesNothing, backwards.Clipped):
    @staticmethod
    def forward(x: Any) -> Any:
        return x * 1


square = Square.apply
square_with_jvp = SquareWithJvp.apply
product = Product.apply
gradient_of_x_only = GradientOfXOnly.apply
times_own_sum = TimesOwnSum.apply
matrix_product = MatrixProduct.apply
matrix_product_for_amp = MatrixProductForAmp.apply
complex_square = ComplexSquare.apply
phase = Phase.apply
power = Power.apply
numpy_sinh = NumpySinh.apply
c_sinh = CSinh.apply
exponential = Exponential.apply
clipped = Clipped.apply

define_powers = later(Powers)
define_largest = later(Largest)
define_of_tuple = later(OfTuple)
define_of_dict = later(OfDict)
define_to_dict = later(ToDict)
define_in_place = later(InPlace)
define_in_place_untold = later(InPlaceUntold)
define_tail = later(Tail)
define_same = later(Same)


def define_masked() -> Any:
    return lambda x: Masked.apply(x)[0]


define_with_unknown_name = applied(mistakes.UnknownName, Square)
define_without_cotangent = applied(mistakes.WithoutCotangent, Square)
define_with_builtin = applied(mistakes.Builtin, Square)
define_with_two_gradients = applied(mistakes.TwoGradients, Square)
