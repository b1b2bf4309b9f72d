"""Sums, products and what accumulates, without rounding. ``OPERATIONS`` is read by ``evaluation``."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch

from gradwright.doctor.prove.exact.arithmetic import Arithmetic
from gradwright.doctor.prove.exact.elementwise import Operation, absolute
from gradwright.doctor.prove.exact.number import Number, Part
from gradwright.doctor.prove.exact.ordering import largest

Dims = int | Sequence[int] | None


def _axes(number: Number, dim: Dims) -> list[int]:
    axes = range(number.dim()) if dim is None or dim == [] else [dim] if isinstance(dim, int) else dim
    return [axis % max(number.dim(), 1) for axis in axes]


def total(e: Arithmetic, x: Any, dim: Dims = None, keepdim: bool = False, dtype: Any = None) -> Number:
    a = e.number(x)
    if a.dim() == 0:
        return a.map(torch.clone)
    axes = _axes(a, dim)
    return e.reduced(a.value.sum(axes, keepdim), lambda m, r: r.sum(axes, keepdim), a)


def mean(e: Arithmetic, x: Any, dim: Dims = None, keepdim: bool = False, dtype: Any = None) -> Number:
    a = e.number(x)
    count = math.prod(a.shape[axis] for axis in _axes(a, dim)) if a.dim() else 1
    return e.divide(total(e, a, dim, keepdim), count)


def variance(
    e: Arithmetic, x: Any, dim: Dims = None, correction: Any = 1, keepdim: bool = False, **ignored: Any
) -> Number:
    a = e.number(x)
    axes = _axes(a, dim)
    count = math.prod(a.shape[axis] for axis in axes)
    off = e.subtract(a, mean(e, a, axes, True))
    degrees = count - (1 if correction is None else correction)
    return e.divide(total(e, e.multiply(off, off), axes, keepdim), degrees)


def variance_and_mean(
    e: Arithmetic, x: Any, dim: Dims = None, correction: Any = 1, keepdim: bool = False
) -> tuple[Number, Number]:
    return variance(e, x, dim, correction, keepdim), mean(e, x, dim, keepdim)


def layer_norm(e: Arithmetic, x: Any, shape: Sequence[int], weight: Any, bias: Any, eps: float) -> tuple[Number, ...]:
    axes = list(range(-len(shape), 0))
    spread, centre = variance_and_mean(e, x, axes, 0, True)
    scale = e.reciprocal(e.sqrt(e.add(spread, eps)))
    normal = e.multiply(e.subtract(x, centre), scale)
    weighted = normal if weight is None else e.multiply(normal, weight)
    return (weighted if bias is None else e.add(weighted, bias)), centre, scale


def product(e: Arithmetic, x: Any, dim: int | None = None, keepdim: bool = False, dtype: Any = None) -> Number:
    a = e.number(x)
    if dim is None:
        a, dim, keepdim = a.map(lambda part: part.reshape(-1)), 0, False
    if a.dim() == 0:
        return a.map(torch.clone)

    def modular(m: int, r: Part) -> Part:
        result = torch.ones_like(r.select(dim, 0)) if r.shape[dim] else r.prod(dim)
        for one in r.unbind(dim):
            result = result * one % m
        return result.unsqueeze(dim) if keepdim else result

    return e.reduced(a.value.prod(dim, keepdim), modular, a)


def running_sum(e: Arithmetic, x: Any, dim: int, dtype: Any = None) -> Number:
    a = e.number(x)
    return e.reduced(a.value.cumsum(dim), lambda m, r: r.cumsum(dim), a)


def running_product(e: Arithmetic, x: Any, dim: int, dtype: Any = None) -> Number:
    a = e.number(x)
    if a.dim() == 0 or a.numel() == 0:
        return a.map(torch.clone)

    def modular(m: int, r: Part) -> Part:
        steps = list(r.unbind(dim))
        for k in range(1, len(steps)):
            steps[k] = steps[k - 1] * steps[k] % m
        return torch.stack(steps, dim)

    return e.reduced(a.value.cumprod(dim), modular, a)


def matmul(e: Arithmetic, x: Any, y: Any) -> Number:
    """Of matrices, with or without axes before; a product at a time, so that no sum leaves int64."""
    a, b = e.number(x), e.number(y)

    def modular(m: int, r: Part, s: Part) -> Part:
        return (r.unsqueeze(-1) * s.unsqueeze(-3) % m).sum(-2)

    return e.reduced(a.value @ b.value, modular, a, b)


def dot(e: Arithmetic, x: Any, y: Any) -> Number:
    return total(e, e.multiply(x, y))


def matrix_vector(e: Arithmetic, x: Any, y: Any) -> Number:
    return total(e, e.multiply(x, y), -1)


def _added(multiply: Operation) -> Operation:
    def operation(e: Arithmetic, start: Any, x: Any, y: Any, beta: Any = 1, alpha: Any = 1) -> Number:
        scaled = multiply(e, x, y) if alpha == 1 else e.multiply(multiply(e, x, y), alpha)
        return e.add(scaled, start if beta == 1 else e.multiply(start, beta))

    return operation


# --- softmax and its kin: a shift of the argument changes nothing ----------------------------------------------------


def softmax(e: Arithmetic, x: Any, dim: int, to_float: bool = False) -> Number:
    a = e.number(x)
    powers = e.exp(e.subtract(a, largest(e, a, dim, True)))
    return e.divide(powers, total(e, powers, dim, True))


def logsumexp(e: Arithmetic, x: Any, dim: Dims, keepdim: bool = False) -> Number:
    a = e.number(x)
    made = e.log(total(e, e.exp(a), dim, keepdim))
    return Number(a.value.logsumexp(_axes(a, dim), keepdim), made.residues)


def log_softmax(e: Arithmetic, x: Any, dim: int, to_float: bool = False) -> Number:
    return e.subtract(x, logsumexp(e, x, dim, True))


def softmax_backward(e: Arithmetic, cotangent: Any, output: Any, dim: int, dtype: Any = None) -> Number:
    weighted = e.multiply(cotangent, output)
    return e.subtract(weighted, e.multiply(output, total(e, weighted, dim, True)))


def log_softmax_backward(e: Arithmetic, cotangent: Any, output: Any, dim: int, dtype: Any = None) -> Number:
    return e.subtract(cotangent, e.multiply(e.exp(output), total(e, cotangent, dim, True)))


def norm(e: Arithmetic, x: Any, order: Any = 2, dim: Dims = None, keepdim: bool = False, dtype: Any = None) -> Number:
    if order is None or order == 2:
        return e.sqrt(total(e, e.multiply(x, x), dim, keepdim))
    size = absolute(e, x)
    if order == 1:
        return total(e, size, dim, keepdim)
    if order == math.inf:
        for axis in sorted(_axes(size, dim), reverse=True):
            size = largest(e, size, axis, keepdim)
        return size
    return e.power(total(e, e.power(size, order), dim, keepdim), 1 / order)


def trace(e: Arithmetic, x: Number) -> Number:
    return total(e, x.map(torch.diagonal))


OPERATIONS: dict[str, Operation] = {
    "sum": total,
    "mean": mean,
    "var": variance,
    "std": lambda e, x, *rest, **named: e.sqrt(variance(e, x, *rest, **named)),
    "var_mean": variance_and_mean,
    "native_layer_norm": layer_norm,
    "prod": product,
    "cumsum": running_sum,
    "cumprod": running_product,
    "mm": matmul,
    "bmm": matmul,
    "mv": matrix_vector,
    "dot": dot,
    "vdot": dot,
    "addmm": _added(matmul),
    "baddbmm": _added(matmul),
    "addmv": _added(matrix_vector),
    "_softmax": softmax,
    "_log_softmax": log_softmax,
    "_softmax_backward_data": softmax_backward,
    "_log_softmax_backward_data": log_softmax_backward,
    "logsumexp": logsumexp,
    "linalg_vector_norm": norm,
    "norm": norm,
    "trace": trace,
}
