"""What each elementwise operation of torch does to numbers. ``OPERATIONS`` is read by ``evaluation``."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch

from gradwright.doctor.prove.exact.arithmetic import Arithmetic
from gradwright.doctor.prove.exact.number import NotExaminedError, Number, Part

Operation = Callable[..., Any]


def add(e: Arithmetic, x: Any, y: Any, alpha: Any = 1) -> Number:
    return e.add(x, y if alpha == 1 else e.multiply(y, alpha))


def subtract(e: Arithmetic, x: Any, y: Any, alpha: Any = 1) -> Number:
    return e.subtract(x, y if alpha == 1 else e.multiply(y, alpha))


def divide(e: Arithmetic, x: Any, y: Any, rounding_mode: str | None = None) -> Number:
    quotient = e.divide(x, y)
    if rounding_mode is None:
        return quotient
    return e.number(e.to_whole(quotient, torch.floor if rounding_mode == "floor" else torch.trunc))


def floor_divide(e: Arithmetic, x: Any, y: Any) -> Number:
    return divide(e, x, y, "floor")


def remainder(e: Arithmetic, x: Any, y: Any) -> Number:
    return e.subtract(x, e.multiply(floor_divide(e, x, y), y))


def addcmul(e: Arithmetic, x: Any, y: Any, z: Any, value: Any = 1) -> Number:
    return add(e, x, e.multiply(y, z), value)


def addcdiv(e: Arithmetic, x: Any, y: Any, z: Any, value: Any = 1) -> Number:
    return add(e, x, e.divide(y, z), value)


def lerp(e: Arithmetic, x: Any, y: Any, weight: Any) -> Number:
    return e.add(x, e.multiply(weight, e.subtract(y, x)))


def square(e: Arithmetic, x: Any) -> Number:
    return e.multiply(x, x)


# --- by value ---------------------------------------------------------------------------------------------------------


def maximum(e: Arithmetic, x: Any, y: Any) -> Number:
    signs = e.order(x, y)
    return e.where(signs.isnan(), math.nan, e.where(signs >= 0, x, y))


def minimum(e: Arithmetic, x: Any, y: Any) -> Number:
    signs = e.order(x, y)
    return e.where(signs.isnan(), math.nan, e.where(signs <= 0, x, y))


def clamp(e: Arithmetic, x: Any, low: Any = None, high: Any = None) -> Number:
    result = e.number(x)
    if low is not None:
        result = maximum(e, result, low)
    return result if high is None else minimum(e, result, high)


def relu(e: Arithmetic, x: Any) -> Number:
    return maximum(e, x, 0)


def absolute(e: Arithmetic, x: Any) -> Number:
    return e.where(e.order(x, 0) < 0, e.negative(x), x)


def sign(e: Arithmetic, x: Any) -> Number:
    return e.number(e.order(x, 0))


def heaviside(e: Arithmetic, x: Any, values: Any) -> Number:
    signs = e.order(x, 0)
    return e.where(signs == 0, values, e.where(signs > 0, 1, 0))


def threshold_backward(e: Arithmetic, cotangent: Any, x: Any, threshold: Any) -> Number:
    return e.where(e.order(x, threshold) <= 0, 0, cotangent)


def copysign(e: Arithmetic, x: Any, y: Any) -> Number:
    size = absolute(e, x)
    return e.where(torch.signbit(e.number(y).value), e.negative(size), size)


def where(e: Arithmetic, condition: Any, *branches: Any) -> Any:
    if not branches or isinstance(condition, Number):
        raise NotExaminedError("torch.where asks for places, or takes a condition that is no mask")
    return e.where(condition, *branches)


def masked_fill(e: Arithmetic, x: Any, mask: Part, value: Any) -> Number:
    return e.where(mask, value, x)


def nan_to_num(e: Arithmetic, x: Any, nan: Any = None, posinf: Any = None, neginf: Any = None) -> Number:
    largest = torch.finfo(torch.float32).max
    a = e.number(x)
    a = e.where(a.value.isnan(), 0 if nan is None else nan, a)
    a = e.where(a.value == math.inf, largest if posinf is None else posinf, a)
    return e.where(a.value == -math.inf, -largest if neginf is None else neginf, a)


def _whole(function: Callable[[Part], Part]) -> Operation:
    return lambda e, x: e.number(e.to_whole(x, function))


def _compared(test: Callable[[Part], Part]) -> Operation:
    return lambda e, x, y: test(e.order(x, y))


def _tested(test: Callable[[Part], Part]) -> Operation:
    return lambda e, x: test(e.number(x).value)


OPERATIONS: dict[str, Operation] = {
    "add": add,
    "sub": subtract,
    "rsub": lambda e, x, y, alpha=1: subtract(e, y, x, alpha),
    "mul": lambda e, x, y: e.multiply(x, y),
    "div": divide,
    "true_divide": divide,
    "floor_divide": floor_divide,
    "remainder": remainder,
    "neg": lambda e, x: e.negative(x),
    "positive": lambda e, x: e.number(x),
    "reciprocal": lambda e, x: e.reciprocal(x),
    "square": square,
    "pow": lambda e, x, y: e.power(x, y),
    "float_power": lambda e, x, y: e.power(x, y),
    "addcmul": addcmul,
    "addcdiv": addcdiv,
    "lerp": lerp,
    "maximum": maximum,
    "minimum": minimum,
    "fmax": maximum,
    "fmin": minimum,
    "clamp": clamp,
    "clamp_min": lambda e, x, low: clamp(e, x, low),
    "clamp_max": lambda e, x, high: clamp(e, x, None, high),
    "relu": relu,
    "abs": absolute,
    "sign": sign,
    "sgn": sign,
    "heaviside": heaviside,
    "threshold_backward": threshold_backward,
    "copysign": copysign,
    "where": where,
    "masked_fill": masked_fill,
    "nan_to_num": nan_to_num,
    "floor": _whole(torch.floor),
    "ceil": _whole(torch.ceil),
    "round": _whole(torch.round),
    "trunc": _whole(torch.trunc),
    "lt": _compared(lambda s: s < 0),
    "le": _compared(lambda s: s <= 0),
    "gt": _compared(lambda s: s > 0),
    "ge": _compared(lambda s: s >= 0),
    "eq": _compared(lambda s: s == 0),
    "ne": _compared(lambda s: s != 0),
    "isnan": _tested(torch.isnan),
    "isinf": _tested(torch.isinf),
    "isfinite": _tested(torch.isfinite),
    "signbit": _tested(torch.signbit),
    "logical_not": lambda e, x: e.order(x, 0) == 0,
    "logical_and": lambda e, x, y: (e.order(x, 0) != 0) & (e.order(y, 0) != 0),
    "logical_or": lambda e, x, y: (e.order(x, 0) != 0) | (e.order(y, 0) != 0),
}
