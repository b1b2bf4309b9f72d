"""torch.autograd.Function with `forward(ctx, ...)`, as in torch's first tutorial."""

from __future__ import annotations

from typing import Any

import torch

from ..programs.opaque import sinh_in_c, sinh_in_numpy
from . import backwards, mistakes
from .mistakes import applied, later

NOT_OFFERED = {"input_called_output": "names mean nothing to it"}


class Square(backwards.Square):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return x * x


class SquareWithJvp(backwards.SquareWithJvp):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        ctx.save_for_forward(x)
        return x * x


class Product(backwards.Product):
    @staticmethod
    def forward(ctx: Any, x: Any, w: Any) -> Any:
        ctx.save_for_backward(x, w)
        return x * w


class GradientOfXOnly(backwards.GradientOfXOnly):
    @staticmethod
    def forward(ctx: Any, x: Any, w: Any) -> Any:
        ctx.save_for_backward(w)
        return x * w


class TimesOwnSum(backwards.TimesOwnSum):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return x * x.sum()


class MatrixProduct(backwards.MatrixProduct):
    @staticmethod
    def forward(ctx: Any, x: Any, w: Any) -> Any:
        ctx.save_for_backward(x, w)
        return x @ w


class MatrixProductForAmp(backwards.MatrixProductForAmp):
    @staticmethod
    @torch.amp.custom_fwd(device_type="cpu")
    def forward(ctx: Any, x: Any, w: Any) -> Any:
        ctx.save_for_backward(x, w)
        return x @ w


class ComplexSquare(backwards.ComplexSquare):
    @staticmethod
    def forward(ctx: Any, z: Any) -> Any:
        ctx.save_for_backward(z)
        return z * z


class Phase(backwards.Phase):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        out = torch.exp(1j * x)
        ctx.save_for_backward(out)
        return out


class Powers(backwards.Powers):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return x * x, x * x * x


class Largest(backwards.Largest):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        value, index = x.max(0)
        ctx.save_for_backward(x, index)
        ctx.mark_non_differentiable(index)
        return value, index


class OfTuple(backwards.OfTuple):
    @staticmethod
    def forward(ctx: Any, pair: Any, w: Any) -> Any:
        x, y = pair
        ctx.save_for_backward(x, y, w)
        return x * y * w


class OfDict(backwards.OfDict):
    @staticmethod
    def forward(ctx: Any, pair: Any, w: Any) -> Any:
        x, y = pair["x"], pair["y"]
        ctx.save_for_backward(x, y, w)
        return x * y * w


class ToDict(backwards.ToDict):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return {"square": x * x, "cube": x * x * x}


class Power(backwards.Power):
    @staticmethod
    def forward(ctx: Any, x: Any, exponent: Any = 2) -> Any:
        ctx.save_for_backward(x)
        ctx.exponent = exponent
        return x**exponent


class InPlace(backwards.InPlace):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.mark_dirty(x)
        return x.mul_(2)


class InPlaceUntold(backwards.InPlaceUntold):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return x.mul_(2)


class Tail(backwards.Tail):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return x[1:]


class Same(backwards.Same):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return x


class NumpySinh(backwards.NumpySinh):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return sinh_in_numpy(x)


class CSinh(backwards.CSinh):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return sinh_in_c(x)


class Exponential(backwards.Exponential):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        out = x.exp()
        ctx.save_for_backward(out)
        return out


class Masked(backwards.Masked):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        mask = x > 0
        ctx.save_for_backward(mask)
        return x * mask


class Clipped(backwards.Clipped):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
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
define_masked = later(Masked)
define_with_unknown_name = applied(mistakes.UnknownName, Square)
define_without_cotangent = applied(mistakes.WithoutCotangent, Square)
define_with_builtin = applied(mistakes.Builtin, Square)
define_with_two_gradients = applied(mistakes.TwoGradients, Square)
