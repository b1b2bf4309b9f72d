"""Each operation as Triton says it.

NOTE [libdevice]: Triton's own ``exp``, ``log`` and ``/`` of float32 are the hardware's approximations, two units in the
last place and more from what torch has. Functions are those of CUDA's libdevice, quotients and roots are rounded. The
functions flush subnormals where they are of float32 (Triton builds libdevice so); sums, products, quotients don't.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from typing import Final, Literal

from gradwright.kernels.formula.expression import Expression

Precision = Literal["f32", "f64"]

TYPES: Final = {
    "f32": "tl.float32",
    "f64": "tl.float64",
    "f16": "tl.float16",
    "bf16": "tl.bfloat16",
    "i8": "tl.int8",
    "u8": "tl.uint8",
    "i16": "tl.int16",
    "i32": "tl.int32",
    "i64": "tl.int64",
    "bool": "tl.int1",
}

_OF_LIBDEVICE: Final = frozenset(  # NOTE [libdevice]
    ("exp", "log", "log1p", "expm1", "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh", "erf", "pow")
)
_TEMPLATES: Final = {
    "add": "{0} + {1}",
    "sub": "{0} - {1}",
    "mul": "{0} * {1}",
    "div": "DIV({0}, {1})",
    "sqrt": "SQRT({0})",
    "neg": "{0} * -1.0",  # Triton's minus is 0 - x, which has no -0.0
    "abs": "tl.abs({0})",
    "sign": "tl.where({0} > 0.0, 1.0, tl.where({0} < 0.0, -1.0, 0.0)).to(REAL)",
    "minimum": "tl.minimum({0}, {1}, propagate_nan=tl.PropagateNan.ALL)",
    "maximum": "tl.maximum({0}, {1}, propagate_nan=tl.PropagateNan.ALL)",
    "clamp": "tl.minimum(tl.maximum({0}, {1}, propagate_nan=tl.PropagateNan.ALL), {2}, "
    "propagate_nan=tl.PropagateNan.ALL)",
    "where": "tl.where({0}, {1}, {2})",
    "lt": "{0} < {1}",
    "le": "{0} <= {1}",
    "gt": "{0} > {1}",
    "ge": "{0} >= {1}",
    "eq": "{0} == {1}",
    "ne": "{0} != {1}",
    "and": "{0} & {1}",
    "or": "{0} | {1}",
    "not": "{0} == 0",
}
# In several lines: {0} the argument, {t} the name of the result. exp(-|x|) neither overflows nor cancels.
_IN_STEPS: Final = {
    "sigmoid": (
        "{t}_e = libdevice.exp(tl.abs({0}) * -1.0)",
        "{t} = DIV(tl.where({0} < 0.0, {t}_e, 1.0).to(REAL), 1.0 + {t}_e)",
    ),
    "sigmoid_slope": (
        "{t}_e = libdevice.exp(tl.abs({0}) * -1.0)",
        "{t} = DIV({t}_e, (1.0 + {t}_e) * (1.0 + {t}_e))",
    ),
    "softplus": (
        "{t}_e = libdevice.exp(tl.abs({0}) * -1.0)",
        "{t} = tl.where({0} > 0.0, {0}, 0.0).to(REAL) + libdevice.log1p({t}_e)",
    ),
    "sech_square": (
        "{t}_e = libdevice.exp(tl.abs({0}) * -2.0)",
        "{t} = DIV(4.0 * {t}_e, (1.0 + {t}_e) * (1.0 + {t}_e))",
    ),
    "exp_neg_square": (  # what x * x was rounded by is put back: it is up to 100 units in the last place of exp(-x²)
        "{t}_s = {0} * {0}",
        "{t}_e = libdevice.exp({t}_s * -1.0)",
        "{t} = tl.where({t}_s < 1000.0, {t}_e - {t}_e * libdevice.fma({0}, {0}, {t}_s * -1.0), {t}_e)",
    ),
}


# What stands for DIV and SQRT above, by what is computed with.
_ROUNDED: Final = {
    "f32": {"DIV": "tl.div_rn", "SQRT": "tl.sqrt_rn"},
    "f64": {"DIV": "libdevice.div_rn", "SQRT": "libdevice.sqrt_rn"},
}


def code(node: Expression, made: str, arguments: Sequence[str], precision: Precision) -> list[str]:
    """The lines that give the name ``made`` to an operation of named ``arguments``, or to a constant."""
    words = {"REAL": TYPES[precision], **_ROUNDED[precision]}
    return [_filled(line, words) for line in _lines(node, made, arguments, precision)]


def _lines(node: Expression, made: str, arguments: Sequence[str], precision: Precision) -> list[str]:
    if node.operation == "constant":
        return [f"{made} = {_constant(node.value, precision)}"]
    if node.operation in _IN_STEPS:
        return [line.format(*arguments, t=made) for line in _IN_STEPS[node.operation]]
    if node.operation == "pow" and node.arguments[1].is_constant(2.0):
        return [f"{made} = {arguments[0]} * {arguments[0]}"]
    if node.operation in _OF_LIBDEVICE:
        return [f"{made} = libdevice.{node.operation}({', '.join(arguments)})"]
    return [f"{made} = {_TEMPLATES[node.operation].format(*arguments)}"]


def _filled(line: str, words: dict[str, str]) -> str:
    for word, meaning in words.items():
        line = line.replace(word, meaning)
    return line


def _constant(value: float, precision: Precision) -> str:
    """A scalar that is this number to the bit. What a literal can't say (nan, inf, -0.0) is written as bits."""
    code, whole, integer = ("<f", "<i", "tl.int32") if precision == "f32" else ("<d", "<q", "tl.int64")
    try:
        packed = struct.pack(code, value)
    except OverflowError:  # beyond float32, as torch rounds it
        packed = struct.pack(code, math.copysign(math.inf, value))
    (rounded,) = struct.unpack(code, packed)
    if math.isfinite(rounded) and not (rounded == 0 and math.copysign(1.0, rounded) < 0):
        return f"tl.full((), {value!r}, {TYPES[precision]})"
    (bits,) = struct.unpack(whole, packed)
    return f"tl.full((), {bits}, {integer}).to({TYPES[precision]}, bitcast=True)"
