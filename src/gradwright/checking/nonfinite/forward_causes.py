"""Why an operation of the forward made a NaN or an inf of finite values (or a NaN of an inf that was meant)."""

from __future__ import annotations

import ast
import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from gradwright.checking.nonfinite.domains import GUARD, SMALL, dtype_name, of_one_value, of_power
from gradwright.checking.nonfinite.looks import HALVES, any_nan, largest, tensors_in, value_at, word
from gradwright.checking.nonfinite.operations import (
    CONVERSIONS,
    ELEMENTWISE,
    POWERS,
    PRODUCTS,
    QUOTIENTS,
    SOFTMAXES,
    SUMS,
    divisor,
    operands,
)
from gradwright.checking.nonfinite.origins import Cause

EXPLODED = 1e15  # no healthy activation or loss is that large; its square ends float32
_COUNT = "divide by count.clamp(min=1), or leave out the batch in which there is nothing to average"


def forward_cause(
    name: str, args: tuple[Any, ...], kwargs: Mapping[str, Any], out: Tensor, entry: tuple[int, ...], text: str
) -> tuple[Cause, tuple[tuple[str, float], ...]]:
    """The cause, and the operands' values at the entry. ``text``: the expression as it stands in the source."""
    values = operands(name, args, kwargs)
    there = [value_at(value, entry, out.shape) for value in values]
    numbers = name in POWERS or name in QUOTIENTS or name in PRODUCTS or name in SUMS
    names = ["operand", "second operand", "third operand"] if name in ELEMENTWISE else []
    shown = tuple(
        (label, number)
        for label, value, number in zip(names, values, there, strict=False)
        if number is not None and (numbers or isinstance(value, Tensor))
    )
    cause = (
        _of_nothing(name, args, kwargs, out)
        or of_one_value(name, there[0] if there else None, out, bool(values) and values[0] is out)
        or of_power(name, there, out)
        or _of_quotient(name, values, there, out[entry], text)
        or (_of_meant_inf(name, args, kwargs, there) if any_nan(out[entry]) else None)
        or _of_size(name, values, there, out)
        or Cause("unknown", f"Its operands are finite, and {name} of them is not")
    )
    return cause, shown


def _of_nothing(name: str, args: tuple[Any, ...], kwargs: Mapping[str, Any], out: Tensor) -> Cause | None:
    """Means over no entries, classes all ignored, rows of zeros."""
    tensors = list(tensors_in([args, kwargs]))
    if not tensors:
        return None
    first = tensors[0]
    if name == "normalize":
        eps = kwargs.get("eps", args[3] if len(args) > 3 else 1e-12)
        if isinstance(eps, (int, float)) and not float(torch.tensor(eps, dtype=out.dtype)):
            why = f"A row of zeros has the norm 0, and eps={eps:g} is 0 in {dtype_name(out)}: 0 / 0 is NaN"
            return Cause("normalize-at-zero", why, ("normalize in float32, or with an eps that the dtype can hold",))
    averages = name in ("mean", "nanmean", "std", "var") or name.endswith(("_loss", "entropy"))
    if first.numel() == 0 and averages:
        return Cause(
            "zero-count", f"{name} of a tensor with no entries (shape {list(first.shape)}) is 0 / 0", (_COUNT,)
        )
    if name in ("std", "var", "std_mean", "var_mean"):
        why = "divides by the number of values less one, which is 0: there is a single value to go by"
        return Cause("zero-count", f"{name} {why}", (f"correction=0, or no {name} of a single value",))
    if name == "ctc_loss":
        why = "A target is longer than its input allows: no alignment has a probability above 0"
        return Cause("boundary", why, ("zero_infinity=True, or leave such samples out",))
    if name in ("cross_entropy", "nll_loss"):
        target = tensors[1] if len(tensors) > 1 else None
        ignored = kwargs.get("ignore_index", -100)
        if target is not None and not target.is_floating_point() and bool((target == ignored).all()):
            why = (
                f"All {target.numel()} targets are ignored (ignore_index={ignored}): the mean over the others is 0 / 0"
            )
            return Cause("zero-count", why, ("skip such a batch, or reduction='sum' divided by max(count, 1)",))
        weight = kwargs.get("weight", tensors[2] if len(tensors) > 2 else None)
        if isinstance(weight, Tensor) and target is not None and not bool(weight[target.clamp(min=0)].any()):
            return Cause("zero-count", "All targets have weight 0: the weighted mean is 0 / 0", (_COUNT,))
    return None


def _of_quotient(name: str, values: list[Any], there: list[float | None], out: Tensor, text: str) -> Cause | None:
    """A zero below the line: a count, a norm, or anything."""
    by = divisor(name, values)
    if by is None:
        return None
    at = next(place for place, value in enumerate(values) if value is by)
    below = there[at]
    if below and abs(below) < 1 and out.dtype not in HALVES and not any_nan(out):
        why = f"The divisor is as small as {word(below)}: the quotient is beyond the end of {dtype_name(out)}"
        return Cause("overflow", why, (GUARD,))
    if below != 0:
        return None
    above = there[0] if at else None
    shown = _divisor_text(text)
    what = f"`{shown}`, the divisor," if shown else "the divisor"
    result = "0 / 0 is NaN" if above == 0 else "a division by 0 is inf"
    maker = _maker(by) if isinstance(by, Tensor) else ""
    if maker.startswith(("Norm", "LinalgVectorNorm", "Sqrt")):
        hints = ("torch.nn.functional.normalize(x, dim=...) divides by norm.clamp(min=eps), and has a gradient at 0",)
        return Cause("normalize-at-zero", f"{what} is a norm, and 0 there: {result}", hints)
    if _is_spread(shown, maker) and above == 0:
        hints = ("add a small number to the deviation (1e-8), or leave out what does not vary",)
        return Cause("zero-spread", f"{what} is a deviation, and 0: all values are the same there, and {result}", hints)
    counts = isinstance(by, int) or (
        isinstance(by, Tensor) and (not by.is_floating_point() or maker.startswith("Sum") or _counts(shown))
    )
    single = isinstance(by, Tensor) and by.numel() == 1 and not by.requires_grad
    if counts or (single and not _is_of_values(shown)):
        nothing = "a count or a sum of nothing (all masked, an empty batch)"
        return Cause("zero-count", f"{what} is {nothing}: {result}", (_COUNT,))
    return Cause("division-by-zero", f"{what} is 0: {result}", (GUARD,))


def _of_meant_inf(
    name: str, args: tuple[Any, ...], kwargs: Mapping[str, Any], there: list[float | None]
) -> Cause | None:
    """What was meant to be inf (a mask) meets something that makes it NaN."""
    infinite = any(
        bool(torch.isinf(one.detach()).any()) for one in tensors_in([args, kwargs]) if one.is_floating_point()
    )
    if name in SOFTMAXES or "attention" in name:
        masks = [one for one in tensors_in([args, kwargs]) if one.dtype == torch.bool]
        if any(bool((one == math.inf).any()) for one in tensors_in([args, kwargs]) if one.is_floating_point()):
            hints = ("keep inf out of what softmax takes; -inf alone masks",)
            return Cause("inf-minus-inf", f"A row that {name} takes holds inf, and inf - inf is NaN", hints)
        if infinite or masks:
            why = f"A whole row that {name} takes is masked (-inf): nothing is left to share 1 among, and 0 / 0 is NaN"
            hints = ("leave one entry of each row unmasked, or set such rows to 0 afterwards, and their scores before",)
            return Cause("masked-row", why, hints)
    if not infinite:
        return None
    if 0.0 in there and any(value is not None and math.isinf(value) for value in there):
        hints = ("choose with torch.where(mask, value, 0): a product with a mask keeps what is not finite",)
        return Cause("zero-times-inf", "0 * inf is NaN: a factor of 0 does not take away what is infinite", hints)
    if name in QUOTIENTS:
        return Cause(
            "inf-over-inf", "inf / inf is NaN", ("keep infinite values out of quotients: torch.where, masked_fill",)
        )
    if name in PRODUCTS:
        hints = ("choose with torch.where(mask, value, 0) before the product",)
        return Cause("zero-times-inf", f"{name} adds up products with inf, and 0 * inf (or inf - inf) is NaN", hints)
    if name in SUMS:
        return Cause(
            "inf-minus-inf", "inf - inf is NaN", ("keep infinite values out of sums: torch.where, masked_fill",)
        )
    return Cause("unknown", f"{name} makes a NaN of an inf")


def _of_size(name: str, values: list[Any], there: list[float | None], out: Tensor) -> Cause | None:
    """Too large for the format."""
    most = max((largest(value) for value in values), default=0.0)
    top = torch.finfo(out.dtype).max if out.is_floating_point() else math.inf
    if out.dtype in HALVES and most < EXPLODED:
        what = f"{dtype_name(out)} ends at {word(top)}"
        size = next((abs(value) for value in there if value is not None), most)
        if name in CONVERSIONS:
            why = f"{word(size)} does not fit: {what}"
        else:
            why = f"The result of {name} is larger than that: {what}, and its operands reach up to {word(most)}"
        hints = (
            "compute this in float32 (x.float(), or torch.autocast(enabled=False) around it), or scale it down first",
        )
        return Cause("half-overflow", why, hints)
    if most > EXPLODED:
        beyond = f"{name} of that is beyond {word(top)}, the end of {dtype_name(out)}"
        why = f"Its operands had already grown to {word(most)}: {beyond}"
        hints = ("it diverged before: a smaller learning rate, gradient clipping, or a fault that lets the loss grow",)
        return Cause("explosion", why, hints)
    if most > SMALL:
        why = f"The result is beyond {word(top)}, the end of {dtype_name(out)}, of operands up to {word(most)}"
        return Cause("overflow", why, ("scale it down before, or work with logarithms",))
    return None


def _maker(tensor: Tensor) -> str:
    """The name of the node that made it, seen through what only reshapes or bounds it."""
    node = tensor.grad_fn
    through = ("Unsqueeze", "Expand", "View", "Clamp", "Reshape", "ToCopy", "Squeeze", "Transpose", "T")
    for _ in range(4):
        if node is None:
            return ""
        name = node.name()
        if not name.startswith(through) or not node.next_functions:
            return name
        node = node.next_functions[0][0]
    return ""


def _divisor_text(text: str) -> str:
    try:
        node = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError):
        return ""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div):
        return ast.unparse(node.right)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.args:
        return ast.unparse(node.args[-1])
    return ""


def _is_spread(text: str, maker: str) -> bool:
    return maker.startswith(("Std", "Var")) or _last_name(text) in ("std", "var", "sigma")


def _is_of_values(text: str) -> bool:
    """A single number that is no count: the largest value, a deviation."""
    return _last_name(text) in ("max", "min", "amax", "amin", "std", "var", "sigma", "mean", "median", "norm")


def _last_name(text: str) -> str:
    """``std`` of ``x.std(dim=0)``, of ``torch.std(x)`` and of ``self.std``."""
    try:
        node = ast.parse(text, mode="eval").body
    except SyntaxError:
        return ""
    node = node.func if isinstance(node, ast.Call) else node
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")


def _counts(text: str) -> bool:
    words = ("sum(", "count", "len(", "num", "mask", ".any", "total")
    return any(part in text.lower() for part in words)
