"""Transcendental functions, as far as possible by way of exp, log and sqrt. Read by ``evaluation``."""

from __future__ import annotations

from typing import Any

import torch

from gradwright.doctor.prove.exact.arithmetic import Arithmetic
from gradwright.doctor.prove.exact.elementwise import Operation
from gradwright.doctor.prove.exact.number import Number


def rsqrt(e: Arithmetic, x: Any) -> Number:
    return e.reciprocal(e.sqrt(x))


def exp2(e: Arithmetic, x: Any) -> Number:
    return e.exp(e.multiply(x, e.log(2)))


def expm1(e: Arithmetic, x: Any) -> Number:
    return e.subtract(e.exp(x), 1)


def log1p(e: Arithmetic, x: Any) -> Number:
    return e.log(e.add(x, 1))


def log2(e: Arithmetic, x: Any) -> Number:
    return e.divide(e.log(x), e.log(2))


def log10(e: Arithmetic, x: Any) -> Number:
    return e.divide(e.log(x), e.log(10))


def sigmoid(e: Arithmetic, x: Any) -> Number:
    """1 / (1 + exp(-x)), with a value that does not overflow."""
    a = e.number(x)
    made = e.reciprocal(e.add(e.exp(e.negative(a)), 1))
    return Number(a.value.sigmoid(), made.residues)


def tanh(e: Arithmetic, x: Any) -> Number:
    a = e.number(x)
    made = e.subtract(e.multiply(2, sigmoid(e, e.multiply(a, 2))), 1)
    return Number(a.value.tanh(), made.residues)


def cosh(e: Arithmetic, x: Any) -> Number:
    return e.divide(e.add(e.exp(x), e.exp(e.negative(x))), 2)


def sinh(e: Arithmetic, x: Any) -> Number:
    return e.divide(e.subtract(e.exp(x), e.exp(e.negative(x))), 2)


def logaddexp(e: Arithmetic, x: Any, y: Any) -> Number:
    return e.log(e.add(e.exp(x), e.exp(y)))


def xlogy(e: Arithmetic, x: Any, y: Any) -> Number:
    a = e.number(x)
    return e.where(a.value == 0, 0, e.multiply(a, e.log(y)))


def _named(name: str) -> Operation:
    function = getattr(torch, name)

    def operation(e: Arithmetic, *operands: Any) -> Number:
        numbers = [e.number(operand) for operand in operands]
        return e.named(name, function(*(number.value for number in numbers)), *numbers)

    return operation


OPERATIONS: dict[str, Operation] = {
    "exp": lambda e, x: e.exp(x),
    "log": lambda e, x: e.log(x),
    "sqrt": lambda e, x: e.sqrt(x),
    "rsqrt": rsqrt,
    "exp2": exp2,
    "expm1": expm1,
    "log1p": log1p,
    "log2": log2,
    "log10": log10,
    "sigmoid": sigmoid,
    "tanh": tanh,
    "cosh": cosh,
    "sinh": sinh,
    "logaddexp": logaddexp,
    "xlogy": xlogy,
    "sigmoid_backward": lambda e, g, y: e.multiply(g, e.multiply(y, e.subtract(1, y))),
    "tanh_backward": lambda e, g, y: e.multiply(g, e.subtract(1, e.multiply(y, y))),
    "erfc": lambda e, x: e.subtract(1, OPERATIONS["erf"](e, x)),
    **{
        name: _named(name)
        for name in (
            *("sin", "cos", "tan", "asin", "acos", "atan", "atan2", "asinh", "acosh", "atanh", "erf", "erfinv"),
            *("lgamma", "digamma", "sinc", "i0"),
        )
    },
}
