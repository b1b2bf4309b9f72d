"""Inputs and outputs, copies, threads, opaque forwards, memory, mistakes: programs by the names of the rows."""

from __future__ import annotations

import copy
import pickle
import weakref
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import autograd.numpy as anp
import numpy
from autograd import grad, make_jvp, make_vjp
from autograd.builtins import dict as dict_of
from autograd.builtins import tuple as tuple_of
from autograd.extend import defvjp, primitive

from ...programs.definition import AT_DEFINITION
from ...programs.values import SCALE, raised
from . import functions
from .start import X, summed


def several_outputs() -> Any:
    def total(x: Any) -> Any:
        second, third = functions.powers(x)
        return anp.sum(second * 10 + third)

    return grad(total)(X), SCALE * (20 * X + 3 * X * X)


def undefined_cotangent() -> Any:
    return grad(lambda x: anp.sum(functions.powers(x)[0]))(X), 5 * X


def integer_output() -> Any:
    seen = []

    def value(x: Any) -> Any:
        found = functions.largest(x)
        seen.append(found[1])
        return found[0]

    gradient = grad(value)(X)
    index = getattr(seen[0], "_value", seen[0])
    return (gradient, index, False), (numpy.array([0.0, 0.0, SCALE]), 2, False)


def _triple() -> Any:
    return X, numpy.array((3.0, 4.0, 5.0)), numpy.array((1.0, 2.0, 3.0))


def tuple_in() -> Any:
    x, y, w = _triple()
    got = grad(lambda x, y, w: anp.sum(functions.of_tuple(tuple_of((x, y)), w)), (0, 1, 2))(x, y, w)
    return got, (SCALE * y * w, SCALE * x * w, SCALE * x * y)


def dict_in() -> Any:
    x, y, w = _triple()
    got = grad(lambda x, y, w: anp.sum(functions.of_dict(dict_of({"x": x, "y": y}), w)), (0, 1, 2))(x, y, w)
    return got, (SCALE * y * w, SCALE * x * w, SCALE * x * y)


def dict_out() -> Any:
    def total(x: Any) -> Any:
        out = functions.to_dict(x)
        return anp.sum(out["square"] * 10 + out["cube"] + x)

    return grad(total)(X), SCALE * (20 * X + 3 * X * X) + 1


def keyword() -> Any:
    return grad(lambda x: anp.sum(functions.power(x, exponent=3)))(X), SCALE * 3 * X * X


def tensor_by_keyword() -> Any:
    w = numpy.array((1.0, 2.0, 3.0))
    return grad(lambda x, w: anp.sum(functions.product(w=w, x=x)), (0, 1))(X, w), (SCALE * w, SCALE * X)


def non_tensor() -> Any:
    return grad(lambda x: anp.sum(functions.power(x, 3)))(X), SCALE * 3 * X * X


def default_argument() -> Any:
    return grad(summed(functions.power))(X), 5 * X


def overwritten() -> Any:
    """The array that was differentiated at is written to between forward and backward."""
    x = X.copy()
    pull, out = make_vjp(functions.square)(x)
    x *= 2
    return pull(numpy.ones_like(out)), "an error"


def output_overwritten() -> Any:
    pull, out = make_vjp(functions.exponential)(X)
    out *= 2
    return raised(lambda: pull(numpy.ones_like(out))), "an error"


def in_place_untold() -> Any:
    def total(x: Any) -> Any:
        y = x * 1
        functions.in_place_untold(y)
        return anp.sum(y)

    return grad(total)(X), numpy.full(3, 2 * SCALE)


def view_read() -> Any:
    return grad(summed(functions.tail))(X), numpy.array((0.0, SCALE, SCALE))


def view_in() -> Any:
    return grad(lambda x: anp.sum(functions.square(x[1:])))(X), numpy.array((0.0, -5.0, 10.0))


def input_out() -> Any:
    return grad(lambda x: anp.sum(functions.same(x) + x))(X), numpy.full(3, SCALE + 1)


def pickled() -> Any:
    return grad(summed(pickle.loads(pickle.dumps(functions.square))))(X), 5 * X


def deep_copied() -> Any:
    return grad(summed(copy.deepcopy(functions.square)))(X), 5 * X


def threads() -> Any:
    def work(number: int) -> list[float]:
        return [float(grad(functions.square)(number + step / 64)) for step in range(50)]

    with ThreadPoolExecutor(8) as pool:
        got = list(pool.map(work, range(8)))
    return got, [[5 * (number + step / 64) for step in range(50)] for number in range(8)]


def numpy_backward() -> Any:
    return grad(summed(functions.numpy_sinh))(X), SCALE * numpy.cosh(X)


def c_backward() -> Any:
    return grad(summed(functions.c_sinh))(X), SCALE * numpy.cosh(X)


numpy_func_grad, c_func_grad = numpy_backward, c_backward


def c_forward_mode() -> Any:
    tangent = numpy.array((1.0, 2.0, 3.0))
    return make_jvp(functions.c_sinh)(X)(tangent), (numpy.sinh(X), SCALE * numpy.cosh(X) * tangent)


def _watched(values: Any) -> tuple[Any, Any]:
    return values, weakref.ref(values)


def _freed(seen: Any) -> str:
    return "freed" if seen() is None else "kept"


def only_named() -> Any:
    w = numpy.array((1.0, 2.0, 3.0))
    y, seen = _watched(X * 1)
    pull, out = make_vjp(functions.gradient_of_x_only)(y, w)
    del y
    kept = _freed(seen)
    return (pull(numpy.ones_like(out)), kept), (SCALE * w, "freed")


def freed() -> Any:
    """What a pullback holds lives as long as the pullback does; that is dropped here."""
    y, seen = _watched(X * 1)
    pull, out = make_vjp(functions.square)(y)
    gradient = pull(numpy.ones_like(out))
    del y, pull
    return (gradient, _freed(seen)), (5 * X, "freed")


def saved_output() -> Any:
    pull, out = make_vjp(functions.exponential)(X)
    gradient = pull(numpy.ones_like(out))
    seen = weakref.ref(out)
    del out, pull
    return (gradient, _freed(seen)), (SCALE * numpy.exp(X), "freed")


def _when(vjp: Any) -> Any:
    try:
        function = primitive(lambda x: x * x)
        defvjp(function, vjp)
    except Exception:
        return AT_DEFINITION, AT_DEFINITION
    return grad(summed(function))(X), AT_DEFINITION


def unknown_name() -> Any:
    return _when(lambda ans, y, z: lambda g: SCALE * 2 * y * g)


def wrong_arity() -> Any:
    return _when(lambda ans, x: lambda: SCALE * 2 * x)


def builtin_name() -> Any:
    return _when(lambda ans, x: lambda g: SCALE * 2 * input * g)  # type: ignore[operator]


def too_many() -> Any:
    return _when(lambda ans, x: lambda g: (SCALE * 2 * x * g, SCALE * 2 * x * g))
