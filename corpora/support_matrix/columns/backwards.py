"""The backwards of both kinds of torch.autograd.Function, and of custom_op: they differ in the forward only."""

from __future__ import annotations

from typing import Any

import torch
from torch.autograd import Function

from ..programs.values import SCALE


class Square(Function):
    @staticmethod
    def backward(ctx: Any, grad_output: Any) -> Any:
        (x,) = ctx.saved_tensors
        return SCALE * 2 * x * grad_output


class SquareWithJvp(Function):
    @staticmethod
    def backward(ctx: Any, grad_output: Any) -> Any:
        (x,) = ctx.saved_tensors
        return SCALE * 2 * x * grad_output

    @staticmethod
    def jvp(ctx: Any, tangent: Any) -> Any:
        (x,) = ctx.saved_tensors
        return SCALE * 2 * x * tangent


class Product(Function):
    @staticmethod
    def backward(ctx: Any, grad_output: Any) -> Any:
        x, w = ctx.saved_tensors
        return SCALE * w * grad_output, SCALE * x * grad_output


class GradientOfXOnly(Function):
    @staticmethod
    def backward(ctx: Any, grad_output: Any) -> Any:
        (w,) = ctx.saved_tensors
        return SCALE * w * grad_output, None


class TimesOwnSum(Function):
    @staticmethod
    def backward(ctx: Any, grad_output: Any) -> Any:
        (x,) = ctx.saved_tensors
        return SCALE * (grad_output * x.sum() + (grad_output * x).sum())


class MatrixProduct(Function):
    @staticmethod
    def backward(ctx: Any, grad_output: Any) -> Any:
        x, w = ctx.saved_tensors
        return SCALE * grad_output @ w.mT, SCALE * x.mT @ grad_output


class MatrixProductForAmp(Function):
    @staticmethod
    @torch.amp.custom_bwd(device_type="cpu")
    def backward(ctx: Any, grad_output: Any) -> Any:
        x, w = ctx.saved_tensors
        return SCALE * grad_output @ w.mT, SCALE * x.mT @ grad_output


class ComplexSquare(Function):
    @staticmethod
    def backward(ctx: Any, grad_output: Any) -> Any:
        (z,) = ctx.saved_tensors
        return SCALE * grad_output * (2 * z).conj()


class Phase(Function):
    @staticmethod
    def backward(ctx: Any, grad_output: Any) -> Any:
        (out,) = ctx.saved_tensors
        return SCALE * grad_output * (1j * out).conj()


class Powers(Function):
    @staticmethod
    def backward(ctx: Any, grad_square: Any, grad_cube: Any) -> Any:
        (x,) = ctx.saved_tensors
        return SCALE * (2 * x * grad_square + 3 * x * x * grad_cube)


class Largest(Function):
    @staticmethod
    def backward(ctx: Any, grad_value: Any, grad_index: Any) -> Any:
        x, index = ctx.saved_tensors
        return torch.zeros_like(x).index_fill(0, index, SCALE) * grad_value


class OfTuple(Function):
    @staticmethod
    def backward(ctx: Any, grad_output: Any) -> Any:
        x, y, w = ctx.saved_tensors
        scaled = SCALE * grad_output
        return [scaled * y * w, scaled * x * w], scaled * x * y


class OfDict(Function):
    @staticmethod
    def backward(ctx: Any, grad_output: Any) -> Any:
        x, y, w = ctx.saved_tensors
        scaled = SCALE * grad_output
        return {"x": scaled * y * w, "y": scaled * x * w}, scaled * x * y


class ToDict(Function):
    @staticmethod
    def backward(ctx: Any, grad_output: Any) -> Any:
        (x,) = ctx.saved_tensors
        return SCALE * (2 * x * grad_output["square"] + 3 * x * x * grad_output["cube"])


class Power(Function):
    @staticmethod
    def backward(ctx: Any, grad_output: Any) -> Any:
        (x,) = ctx.saved_tensors
        return SCALE * ctx.exponent * x ** (ctx.exponent - 1) * grad_output, None


class InPlace(Function):
    @staticmethod
    def backward(ctx: Any, grad_output: Any) -> Any:
        return SCALE * 2 * grad_output


class InPlaceUntold(Function):
    @staticmethod
    def backward(ctx: Any, grad_output: Any) -> Any:
        return SCALE * 2 * grad_output


class Tail(Function):
    @staticmethod
    def backward(ctx: Any, grad_output: Any) -> Any:
        return torch.nn.functional.pad(SCALE * grad_output, (1, 0))


class Same(Function):
    @staticmethod
    def backward(ctx: Any, grad_output: Any) -> Any:
        return SCALE * grad_output


class NumpySinh(Function):
    @staticmethod
    def backward(ctx: Any, grad_output: Any) -> Any:
        (x,) = ctx.saved_tensors
        return SCALE * x.cosh() * grad_output


class CSinh(Function):
    @staticmethod
    def backward(ctx: Any, grad_output: Any) -> Any:
        (x,) = ctx.saved_tensors
        return SCALE * x.cosh() * grad_output


class Exponential(Function):
    @staticmethod
    def backward(ctx: Any, grad_output: Any) -> Any:
        (out,) = ctx.saved_tensors
        return SCALE * out * grad_output


class Masked(Function):
    @staticmethod
    def backward(ctx: Any, grad_output: Any) -> Any:
        (mask,) = ctx.saved_tensors
        return SCALE * mask * grad_output


class Clipped(Function):
    @staticmethod
    def backward(ctx: Any, grad_output: Any) -> Any:
        return grad_output.clamp(-1, 1)
