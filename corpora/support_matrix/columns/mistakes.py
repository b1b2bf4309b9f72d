"""The author's mistakes as Functions: backwards that can't work, on the forward of a square."""

from __future__ import annotations

from typing import Any

from ..programs.values import SCALE


class UnknownName:
    @staticmethod
    def backward(ctx: Any, grad_output: Any) -> Any:
        return SCALE * 2 * ctx.y * grad_output


class WithoutCotangent:
    @staticmethod
    def backward(ctx: Any) -> Any:
        return SCALE * 2 * ctx.saved_tensors[0]


class Builtin:
    @staticmethod
    def backward(ctx: Any, grad_output: Any) -> Any:
        return SCALE * 2 * input * grad_output  # type: ignore[operator]  # the mistake


class TwoGradients:
    @staticmethod
    def backward(ctx: Any, grad_output: Any) -> Any:
        (x,) = ctx.saved_tensors
        return SCALE * 2 * x * grad_output, SCALE * 2 * x * grad_output


def applied(mistake: type, square: type) -> Any:
    """Define the Function that mistakes so, only when it is called."""
    return lambda: type(mistake.__name__, (mistake, square), {}).apply  # type: ignore[attr-defined]


def later(function: Any) -> Any:
    """The Function's apply, taken only when it is called: what raises at definition is seen then."""
    return lambda: function.apply
