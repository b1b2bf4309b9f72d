"""What the graph of a loss says of its reduction: a mean that is passed as a sum is caught.

From the loss downwards through what is linear (sums, factors that are constants, changes of view and type) to the node
that reduces. What is not known says nothing: no judgement is made of a loss that is written in another way.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor

from gradwright.errors import UsageError
from gradwright.training.counting import Reduction

_THROUGH = (
    "NegBackward0", "ViewBackward0", "ReshapeAliasBackward0", "SqueezeBackward0", "SqueezeBackward1",
    "UnsqueezeBackward0", "ToCopyBackward0", "CloneBackward0", "AliasBackward0", "MulBackward0", "UnsafeViewBackward0",
)  # fmt: skip
_MEAN, _SUM = 1, 2  # torch's Reduction
_DEEPEST = 12


def check_reduction(loss: Tensor, claimed: Reduction, items: float | None) -> None:
    """Raises: UsageError, if the graph of ``loss`` shows another reduction than the one that is said."""
    if claimed not in ("sum", "mean"):
        raise UsageError(
            f"backward(reduction={claimed!r}): say 'sum' or 'mean', as the loss was made: what it is divided by hangs "
            "on that"
        )
    if items is not None and items <= 1:
        return  # the mean of one is its sum
    found = _reduction(loss.grad_fn, items, 0)
    if found is None or found[0] == claimed:
        return
    real, node = found
    do = f"pass reduction={real!r}" if claimed == "sum" else f"pass reduction={real!r}, or make the loss with 'mean'"
    raise UsageError(
        f"the loss is passed as a {claimed}, and its graph says that it is a {real} ({node}): every micro-batch would "
        f"count {'alike, whatever it holds' if claimed == 'sum' else 'too much by its number of items'}. {do}"
    )


def _reduction(node: Any, items: float | None, depth: int) -> tuple[Reduction, str] | None:
    if node is None or depth > _DEEPEST:
        return None
    name = node.name()
    saved = getattr(node, "_saved_reduction", None)
    if saved in (_MEAN, _SUM):
        return ("mean" if saved == _MEAN else "sum"), name
    if name in ("MeanBackward0", "MeanBackward1"):
        return None if _elements(node) == 1 else ("mean", name)
    if name in ("SumBackward0", "SumBackward1"):
        below = node.next_functions[0][0]
        if _elements(node) == 1:
            return _reduction(below, items, depth + 1)
        # sums of means, and of what is weighted (the weights may sum up to 1), may be either
        return ("sum", name) if below is None or not below.name().startswith(("Mean", "Mul", "Div")) else None
    ways = [way for way, _ in node.next_functions if way is not None]
    if name in ("AddBackward0", "SubBackward0"):
        found = [_reduction(way, items, depth + 1) for way in ways]
        known = {one[0] for one in found if one is not None}
        return found[0] if len(known) == 1 and None not in found else None
    if name in ("DivBackward0", "DivBackward1") and len(ways) == 1 and node.next_functions[0][0] is not None:
        below = _reduction(ways[0], items, depth + 1)
        if below is None or below[0] == "mean":
            return below
        return ("mean", "a sum that was divided by its count") if items and _divisor(node) == items else None
    if name in _THROUGH and len(ways) == 1:
        return _reduction(ways[0], items, depth + 1)
    return None


def _elements(node: Any) -> int | None:
    """How many numbers were reduced, where the node knows it."""
    sizes = getattr(node, "_saved_self_sym_sizes", None) or getattr(node, "_saved_self_sizes", None)
    if sizes is None:
        return None
    count = 1
    for size in sizes:
        count *= int(size)
    return count


def _divisor(node: Any) -> float | None:
    other = getattr(node, "_saved_other", None)
    if isinstance(other, Tensor):
        return float(other) if other.numel() == 1 and other.device.type == "cpu" else None
    return float(other) if isinstance(other, (int, float)) else None
