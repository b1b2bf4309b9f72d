"""How a loss weighs the mean it is made of: what accumulation divides by is read from the graph, not from the text.

The nodes next to the root are walked: quotients and products with plain numbers, sums of terms, and at their ends means
or sums. Python's ``loss / 4`` makes a ``DivBackward0``, torch's own composites (label smoothing, ``batchmean``) make a
``DivBackward1``: so what the user divides by is told from what belongs to the loss. Saved values are read where no hook
packs them (a checkpoint would compute its region again) and where they lie on the CPU (nothing waits for a device).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal

from torch import Tensor

from gradwright.ground.graphs import output_shape
from gradwright.ground.torch_versions.nodes import is_packed, read_saved

Kind = Literal["mean", "ratio", "sum", "unknown"]

_NODES = 32
_THROUGH = ("Neg", "View", "Reshape", "UnsafeView", "Squeeze", "Unsqueeze", "ToCopy", "Clone", "Alias")
_MEAN, _SUM = 1, 2  # torch's numbers of reductions


@dataclass(frozen=True, slots=True)
class Share:
    """``divisors``: of the loss, from the root down; ``weights``: likewise what it was multiplied by, inverted.
    ``count``: of the elements that the mean is over, if known.

    A "ratio" is a sum over something that may be a count: a mean of one's own if it differs between micro-batches.
    ``scaled``: a GradScaler's factor stands at the root, and is none of the divisors.
    """

    kind: Kind
    divisors: tuple[float, ...] = ()
    weights: tuple[float, ...] = ()
    count: float | None = None
    scaled: bool = False


UNKNOWN = Share("unknown")


def share_of(node: Any, is_scale: Callable[[Any], bool]) -> Share:
    """The share of the loss whose ``grad_fn`` is ``node``. ``is_scale``: tells a GradScaler's product.

    Cost: 1 to 20 microseconds.

    >>> import torch
    >>> share_of((torch.ones(6, requires_grad=True).mean() / 4).grad_fn, lambda node: False)
    Share(kind='mean', divisors=(4.0,), weights=(), count=6.0, scaled=False)
    """
    return _walk(node, is_scale, [_NODES])


def _walk(node: Any, is_scale: Callable[[Any], bool], left: list[int]) -> Share:
    divisors: list[float] = []
    weights: list[float] = []
    scaled = False
    while node is not None and left[0] > 0:
        left[0] -= 1
        name = node.name()
        if is_scale(node):
            scaled, node = True, _only_child(node)[0]
        elif name in ("DivBackward0", "MulBackward0"):
            child, place = _only_child(node)
            number = _number(node, "self" if place else "other")
            if child is None or not number or (place and name == "DivBackward0"):
                return UNKNOWN
            if name == "DivBackward0":
                divisors.append(number)
            else:
                weights.append(1 / number)
            node = child
        elif name == "MulBackward1" or name.startswith(_THROUGH):
            node = _only_child(node)[0]
        elif name.startswith(("AddBackward", "SubBackward")):
            parts = [_walk(child, is_scale, left) for child, _ in node.next_functions if child is not None]
            return _with(_sum_of(parts), divisors, weights, scaled)
        else:
            return _with(_end(node, name, divisors), divisors, weights, scaled)
    return UNKNOWN


def _with(share: Share, divisors: list[float], weights: list[float], scaled: bool) -> Share:
    return replace(
        share,
        divisors=(*divisors, *share.divisors),
        weights=(*weights, *share.weights),
        scaled=scaled or share.scaled,
    )


def _sum_of(parts: list[Share]) -> Share:
    """Of several terms, what divides them all: a weight of one term is no divisor of the loss."""
    means = [part for part in parts if part.kind in ("mean", "ratio")]
    if not means or (
        any(part.kind == "unknown" for part in parts) and all(part.divisors or part.weights for part in means)
    ):
        return UNKNOWN
    divisors, weights = Counter(means[0].divisors), Counter(means[0].weights)
    for part in means[1:]:
        divisors &= Counter(part.divisors)
        weights &= Counter(part.weights)
    counts = {part.count for part in means}
    return Share(
        means[0].kind if len({part.kind for part in means}) == 1 else "mean",
        tuple(divisors.elements()),
        tuple(weights.elements()),
        counts.pop() if len(counts) == 1 else None,
        any(part.scaled for part in parts),
    )


def _end(node: Any, name: str, divisors: list[float]) -> Share:
    """A reduction. A sum that is divided by the number of its elements or rows is a mean: that divisor is taken off."""
    if name.startswith("MeanBackward"):
        return Share("mean", count=float(read_saved(node, "self_sym_numel", 0)) or None)
    if name == "DivBackward1":
        return Share("mean", count=_number(node, "other"))
    if name.startswith("SumBackward"):
        sizes = tuple(read_saved(node, "self_sym_sizes"))
        return _sum_over(divisors, math.prod(sizes), sizes[0] if sizes else 1)
    reduction = read_saved(node, "reduction", None)
    if reduction == _MEAN:
        return Share("mean", count=_elements(node, name))
    return _sum_over(divisors) if reduction == _SUM else UNKNOWN


def _sum_over(divisors: list[float], *own: int) -> Share:
    if not divisors or divisors[-1] <= 1:
        return Share("sum")
    count = divisors.pop()
    return Share("mean" if count in own else "ratio", count=count)


def _elements(node: Any, name: str) -> float | None:
    if name.startswith("NllLoss"):  # the rows that are not ignored
        weighted = is_packed(node, "weight") or read_saved(node, "weight") is not None
        return None if weighted else _number(node, "total_weight")
    shape = next(output_shape(child, place) for child, place in node.next_functions if child is not None)
    return None if shape is None else float(math.prod(shape))


def _only_child(node: Any) -> tuple[Any, int]:
    """The one input that takes a gradient, and which it is; None if there are several."""
    children = [(child, place) for place, (child, _) in enumerate(node.next_functions) if child is not None]
    return children[0] if len(children) == 1 else (None, 0)


def _number(node: Any, name: str) -> float | None:
    """A saved number, or a saved tensor that holds one on the CPU."""
    if is_packed(node, name):
        return None
    try:
        value = read_saved(node, name, None)
    except RuntimeError:  # freed, or changed in place since
        return None
    if isinstance(value, Tensor):
        if value.numel() != 1 or value.device.type != "cpu" or value.is_complex():
            return None
        value = value.item()
    return float(value) if isinstance(value, (int, float)) and math.isfinite(value) else None
