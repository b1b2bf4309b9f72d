"""Where functions of one number, and powers, are not finite."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from gradwright.checking.nonfinite.looks import word
from gradwright.checking.nonfinite.operations import EXPONENTIALS, LOGARITHMS, POWERS
from gradwright.checking.nonfinite.origins import Cause

SMALL = 1e4  # an operand below that does not overflow by itself
GUARD = "guard the operand as well: torch.where(ok, f(torch.where(ok, x, 1)), other), or add a small number to it"
_LOG = "take the logarithm of clamp(min=...) or of a sum with a small number, or use log_softmax, logsigmoid, xlogy"
_INSIDE = "keep the operand inside of where it is finite: clamp(min=...), or a sum with a small number"


def of_one_value(name: str, x: float | None, out: Tensor, is_over: bool) -> Cause | None:
    """Functions of one number outside of where they are finite. ``is_over``: in place, the operand is written over."""
    if x is None:
        return None
    if not math.isfinite(x):
        if name not in LOGARITHMS and name not in ("sqrt", "rsqrt"):
            return None
        if not is_over:
            return Cause("boundary", f"{name} of {word(x)} is NaN", (_INSIDE,))
        below = "a negative number" if math.isnan(x) else "0"  # the result, which is all that is left, still tells
        return Cause("boundary", f"{name} of {below} is {'NaN' if math.isnan(x) else word(x)}", (_INSIDE,))
    if name in EXPONENTIALS and abs(x) > 1:
        top = torch.finfo(out.dtype).max
        why = f"{name}({word(x)}) is larger than {word(top)}, the largest {dtype_name(out)}: it overflows beyond "
        limit = math.log2(top) if name == "exp2" else math.log(top)
        hints = (
            "keep its operand bounded (clamp it, subtract the largest first), or use logsumexp, softmax, softplus, "
            "logsigmoid, binary_cross_entropy_with_logits, which do",
        )
        return Cause("exp-overflow", why + word(limit), hints)
    if name in LOGARITHMS:
        edge = -1.0 if name == "log1p" else 0.0
        if x <= edge or (name.endswith("logit") and x >= 1):
            what = "-inf" if x == edge else "inf" if x == 1 else "NaN"
            return Cause("boundary", f"{name} of {word(x)} is {what}", (_LOG,))
    if name in ("sqrt", "rsqrt") and (x < 0 or (x == 0 and name == "rsqrt")):
        return Cause(
            "boundary", f"{name} of {word(x)} is {'inf' if x == 0 else 'NaN'}", ("clamp(min=...) its operand",)
        )
    if name in ("acos", "asin", "arccos", "arcsin") and abs(x) > 1:
        hints = ("clamp the operand to [-1, 1] (and inside of it, for the gradient)",)
        return Cause("boundary", f"{name} of {x!r}, beyond [-1, 1], is NaN", hints)
    if name in ("atanh", "arctanh", "erfinv", "acosh", "arccosh", "lgamma", "digamma"):
        return Cause("boundary", f"{name} of {x!r} is not finite", ("keep its operand away from there",))
    return None


def of_power(name: str, there: list[float | None], out: Tensor) -> Cause | None:
    """A base of 0, a negative one, an exponent too large."""
    if name not in POWERS or len(there) < 2 or there[0] is None or there[1] is None:
        return None
    base, exponent = there[0], there[1]
    if base == 0 and exponent < 0:
        return Cause("boundary", f"0 to the power of {word(exponent)} is inf", (GUARD,))
    if base < 0 and exponent != int(exponent):
        return Cause("boundary", f"{word(base)}, which is negative, to the power of {word(exponent)} is NaN", (GUARD,))
    if 1 < base < SMALL and exponent > 16:
        end = f"the end of {dtype_name(out)}"
        why = f"{word(base)} to the power of {word(exponent)} is larger than {word(torch.finfo(out.dtype).max)}, {end}"
        return Cause("exp-overflow", why, ("keep the exponent bounded, or work with logarithms",))
    return None


def dtype_name(tensor: Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")
