"""What the graph of a loss says of its reduction: a mean that is passed as a sum is caught.

From the loss downwards through what is linear (sums, factors that are constants, changes of view and type) to the node
that reduces. What is not known says nothing: no judgement is made of a loss that is written in another way, nor of one
that reduces fewer entries than there are items (the mean over some heads of sums over the items is a sum).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from torch import Tensor

from gradwright.derivatives.graph.target import short_name
from gradwright.errors import UsageError
from gradwright.ground.torch_versions.nodes import forward_class, output_metadata, read_saved
from gradwright.training.counting import Reduction
from gradwright.training.coupled.finding.families import ALONG, CURVED, IN_PIECES

_THROUGH = frozenset((
    "NegBackward0", "ViewBackward0", "ReshapeAliasBackward0", "UnsafeViewBackward0", "SqueezeBackward0",
    "SqueezeBackward1", "SqueezeBackward2", "UnsqueezeBackward0", "ToCopyBackward0", "CloneBackward0", "AliasBackward0",
    "SelectBackward0",
))  # fmt: skip
#: Between a sum and the losses of its entries: a choice of them.
_CHOICES = _THROUGH | {"IndexBackward0", "MaskedSelectBackward0", "GatherBackward0", "WhereBackward0"}
_CURVED = frozenset(CURVED) | IN_PIECES | {name for name in ALONG if "Softmax" in name}
_MEANS, _SUMS = ("MeanBackward0", "MeanBackward1"), ("SumBackward0", "SumBackward1")
_NONE, _MEAN, _SUM = 0, 1, 2  # torch's Reduction
_DEEPEST = 16


def check_reduction(loss: Tensor, claimed: Reduction, items: float | None) -> None:
    """Raises: UsageError, if the graph of ``loss`` shows another reduction than the one that is said.

    ``items``: of this micro-batch; None, where they are not known.
    """
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


def said_by_graph(name: str, losses: Any, loss: Tensor, items: float) -> Reduction:
    """How a loss of a mapping was made, where ``reduction`` was left out.

    Raises: UsageError, of a single loss, and where the graph does not show it.
    """
    found = None
    if isinstance(losses, Mapping) and isinstance(loss, Tensor):
        found = _reduction(loss.grad_fn, items if items > 1 else None, 0)
    if found is None:
        raise UsageError(
            f"how was the loss {name!r} made? Say backward(..., reduction='sum') or 'mean', over the items of this "
            "micro-batch: what it is divided by hangs on that"
        )
    return found[0]


def _reduction(node: Any, items: float | None, depth: int) -> tuple[Reduction, str] | None:
    if node is None or depth > _DEEPEST:
        return None
    name = short_name(node)
    saved = read_saved(node, "reduction", None)
    if saved in (_MEAN, _SUM):
        if _entries(node) < (items or 0):
            return None
        return ("mean" if saved == _MEAN else "sum"), name
    if name in _MEANS:
        return ("mean", name) if _elements(node) >= (items or 2) and _is_of_entries(node) else None
    ways = [way for way, _ in node.next_functions if way is not None]
    if name in _SUMS:
        if _elements(node) == 1:
            return _reduction(ways[0], items, depth + 1)
        return ("sum", name) if _elements(node) >= (items or 2) and _is_of_losses(ways[0], 0) else None
    if name in ("AddBackward0", "SubBackward0"):
        if _terms(node) >= (items or 3):
            return None  # a loop over the items, maybe
        found = [_reduction(way, items, depth + 1) for way in ways]
        known = {one[0] for one in found if one is not None}
        return found[0] if len(known) == 1 and None not in found else None
    if name in ("MulBackward0", "DivBackward0") and len(ways) == 1:
        factor = _constant(node)
        if factor is None or (name == "DivBackward0" and node.next_functions[0][0] is None):
            return None
        factor = abs(factor) if name == "MulBackward0" else 1.0 / (abs(factor) or math.inf)
        return _by(factor, _reduction(ways[0], items, depth + 1), items)
    if name in _THROUGH and len(ways) == 1:
        return _reduction(ways[0], items, depth + 1)
    return _ours(node, items)


def _by(factor: float, below: tuple[Reduction, str] | None, items: float | None) -> tuple[Reduction, str] | None:
    """A weight makes nothing else of a loss; but a mean times the count is a sum, and a sum over it a mean."""
    if below is None:
        return None
    kind, name = below
    if kind == "sum":
        if items and math.isclose(factor * items, 1.0, rel_tol=1e-5):
            return "mean", "a sum that was divided by its count"
        return below if factor >= 1.0 else None
    if items and math.isclose(factor, items, rel_tol=1e-5):
        return "sum", "a mean that was multiplied by its count"
    return ("mean", name) if factor <= 1.0 else None


def _is_of_entries(node: Any) -> bool:
    """Whether a mean is one over losses of entries, not over a few losses that were put beside one another."""
    below = node.next_functions[0][0]
    for _ in range(_DEEPEST):
        if below is None:
            return True
        if short_name(below) not in _THROUGH:
            break
        below = below.next_functions[0][0]
    return short_name(below) not in ("StackBackward0", "CatBackward0", *_MEANS)


def _is_of_losses(node: Any, depth: int) -> bool:
    """Whether a sum is one over losses of entries, as they were made: no means, nothing that was weighted."""
    if node is None or depth > _DEEPEST:
        return False
    name = short_name(node)
    if read_saved(node, "reduction", None) == _NONE or name in _CURVED:
        return True
    if name in _CHOICES or name in _SUMS:
        ways = [way for way, _ in node.next_functions if way is not None]
        return len(ways) == 1 and _is_of_losses(ways[0], depth + 1)
    return False


def _elements(node: Any) -> int:
    """How many numbers become one."""
    return _size(node.next_functions[0]) // max(math.prod(int(size) for size in output_metadata(node)[0].shape), 1)


def _entries(node: Any) -> int:
    """How many losses a node of torch's made one of: of classes, the rows."""
    before = node.next_functions[0]
    classes = output_metadata(before[0])[before[1]].shape[1:2] if before[0] is not None else ()
    return _size(before) // (int(classes[0]) if "Nll" in short_name(node) and classes else 1)


def _size(edge: tuple[Any, int]) -> int:
    below, number = edge
    return math.prod(int(size) for size in output_metadata(below)[number].shape) if below is not None else 0


def _terms(node: Any) -> int:
    """How many losses were added to one another."""
    waiting, count = [node], 0
    while waiting and count < 64:
        here = waiting.pop()
        if short_name(here) in ("AddBackward0", "SubBackward0"):
            waiting += [way for way, _ in here.next_functions if way is not None]
        else:
            count += 1
    return count


def _constant(node: Any) -> float | None:
    """The number that is multiplied or divided by; None, too, where a pipeline's schedule has made the backward."""
    try:
        other = read_saved(node, "self") if node.next_functions[0][0] is None else read_saved(node, "other")
    except RuntimeError:  # freed
        return None
    if isinstance(other, Tensor):
        return float(other) if other.numel() == 1 and other.device.type == "cpu" else None
    return float(other) if isinstance(other, (int, float)) else None


def _ours(node: Any, items: float | None) -> tuple[Reduction, str] | None:
    """Of ``gradwright.losses``' rows of classes or points: what their sum is multiplied by."""
    author = forward_class(node)
    if author is None or author.__name__ != "_Rows" or not author.__module__.startswith("gradwright."):
        return None
    if not node.is_reduced:
        return None
    return _by(float(node.share), ("sum", short_name(node)), items)
