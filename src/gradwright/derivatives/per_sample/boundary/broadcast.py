"""What was broadcast over the batch: biases, scales, positional embeddings, class tokens, slopes of PReLU."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from gradwright.derivatives.graph.way import Step
from gradwright.derivatives.nodes.rule import Place
from gradwright.derivatives.per_sample.boundary.rule import Boundary, Make, apart, over_batch, to_shared
from gradwright.ground.torch_versions.nodes import read_saved


def _entrywise(*cotangents: Callable[[Any, Tensor], Tensor]) -> Boundary:
    """y = f(a, b, ...) entry by entry: the cotangent of input i before the broadcast is undone, from node and g."""

    def boundary(step: Step, index: int, place: Place, samples: int) -> Make | None:
        if not over_batch(step, index, place):
            return None
        node, pulled, shape = step.node, cotangents[index], step.inputs[index].shape
        return lambda g: to_shared(pulled(node, g), place, samples, shape)

    return boundary


def _same(node: Any, g: Tensor) -> Tensor:
    return g


def _times_alpha(node: Any, g: Tensor) -> Tensor:
    alpha = read_saved(node, "alpha")
    return g if alpha == 1 else g * (alpha.conjugate() if isinstance(alpha, complex) else alpha)


def _quotient(node: Any, g: Tensor) -> Tensor:
    """y = a / b: dy/db = -a / b^2."""
    slope: Tensor = -read_saved(node, "self") / read_saved(node, "other").square()
    return g * slope.conj()


def _where(chosen: bool) -> Callable[[Any, Tensor], Tensor]:
    def pulled(node: Any, g: Tensor) -> Tensor:
        condition: Tensor = read_saved(node, "condition")
        return g.masked_fill(condition.logical_not() if chosen else condition, 0)

    return pulled


def _repeat(step: Step, index: int, place: Place, samples: int) -> Make | None:
    """Copies of the whole, side by side: axis of size r * s, of which the batch takes a part of the r copies."""
    shape, out = step.inputs[0].shape, step.shape()
    padded = (1,) * (len(out) - len(shape)) + tuple(shape)
    if place.inner % max(padded[place.axis], 1):
        return None

    def make(g: Tensor) -> Tensor:
        parts = apart(g, place, samples)
        copies = [size for total, own in zip(parts.shape[1:], padded, strict=True) for size in (total // own, own)]
        return parts.reshape(samples, *copies).sum(tuple(range(1, len(copies), 2))).reshape(samples, *shape)

    return make if all(padded) else None


BOUNDARIES: dict[str, Boundary] = {
    "AddBackward0": _entrywise(_same, _times_alpha),
    "SubBackward0": _entrywise(_same, lambda node, g: -_times_alpha(node, g)),
    "RsubBackward0": _entrywise(lambda node, g: -_times_alpha(node, g), _same),
    "MulBackward0": _entrywise(
        lambda node, g: g * read_saved(node, "other").conj(), lambda node, g: g * read_saved(node, "self").conj()
    ),
    "DivBackward0": _entrywise(lambda node, g: g / read_saved(node, "other").conj(), _quotient),
    "WhereBackward0": _entrywise(_where(True), _where(False)),
    "PreluKernelBackward0": _entrywise(
        lambda node, g: torch.where(read_saved(node, "self") > 0, g, g * read_saved(node, "weight")),
        lambda node, g: torch.where(read_saved(node, "self") > 0, 0, g * read_saved(node, "self")),
    ),
    "AddcmulBackward0": _entrywise(
        _same,
        lambda node, g: g * (read_saved(node, "tensor2") * read_saved(node, "value")).conj(),
        lambda node, g: g * (read_saved(node, "tensor1") * read_saved(node, "value")).conj(),
    ),
    "ExpandBackward0": _entrywise(_same),
    "RepeatBackward0": _repeat,
}
