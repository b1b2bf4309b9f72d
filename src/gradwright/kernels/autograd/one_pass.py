"""Value and gradients of a scalar loss in one pass over memory.

NOTE [Predicted upstream]: the gradient of a loss needs the cotangent that arrives from upstream, which is mostly the
one that arrived last time (1, or a loss scale). It is predicted, the gradients are computed beside the value, and where
the prediction was right they are handed over as they are. Where it was wrong the same kernel runs again with what
arrived, so that the gradient is the same to the bit either way. Comparing reads a number from memory: on an accelerator
that would stop the queue, so there nothing is predicted.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from gradwright.ground.torch_versions.apply import quick_apply
from gradwright.ground.torch_versions.dynamo import uncompiled_throughout
from gradwright.ground.torch_versions.engine import top_saved_tensors_default_hooks
from gradwright.ground.torch_versions.levels import is_legacy_batchedtensor, is_transformed
from gradwright.kernels.autograd.cotangents import keep, kept
from gradwright.kernels.autograd.fused import fused, looked_at, pulled_back
from gradwright.kernels.autograd.fusion import Fusion

MISSES = 2  # in a row, after which nothing is predicted until an upstream comes twice


class Prediction:
    """What will arrive from upstream; shared by all threads, for each of which any state of it is right."""

    __slots__ = ("_last", "_misses")

    def __init__(self) -> None:
        self._last = 1.0
        self._misses = 0

    def upstream(self) -> float | None:
        """The predicted one; ``None``, where the last ones came as a surprise."""
        return self._last if self._misses < MISSES else None

    def learn(self, upstream: float) -> None:
        self._misses = 0 if _same(upstream, self._last) else self._misses + 1
        self._last = upstream


class _OnePass(torch.autograd.Function):
    """``apply`` takes a Fusion with one output, which is a scalar, a Prediction, and the operands."""

    @staticmethod
    @uncompiled_throughout
    def forward(ctx: Any, fusion: Fusion, prediction: Prediction, *operands: Any) -> Tensor:
        keep(ctx, fusion, operands)
        ctx.prediction = prediction
        upstream = prediction.upstream()
        if upstream is None:
            ctx.gradients = []
            return fusion.run(operands)[0]
        value, *gradients = _both(fusion, operands, upstream, ctx.needs_input_grad[2:])
        ctx.gradients = [(upstream, gradients)]
        return value

    @staticmethod
    @uncompiled_throughout
    def backward(ctx: Any, cotangent: Tensor) -> tuple[Tensor | None, ...]:
        fusion: Fusion = ctx.fusion
        operands = kept(ctx)
        wanted: tuple[bool, ...] = ctx.needs_input_grad[2:]
        if torch.is_grad_enabled() or is_transformed() or is_legacy_batchedtensor(cotangent):
            return None, None, *pulled_back(fusion, operands, (cotangent,), wanted)
        upstream = cotangent.item()
        ctx.prediction.learn(upstream)
        found = iter(_gradients(ctx.gradients, fusion, operands, upstream, wanted))
        return None, None, *[next(found) if is_wanted else None for is_wanted in wanted]


_apply = quick_apply(_OnePass)


@uncompiled_throughout
def scalar(fusion: Fusion, prediction: Prediction, operands: Sequence[Any]) -> Tensor:
    """The only output of a launch on a CPU, which is a scalar: as ``fused``, with its gradients computed beside it."""
    if torch.is_grad_enabled() and not is_transformed() and top_saved_tensors_default_hooks(True) is None:
        alive, needs_graph = looked_at(operands)
        return _apply(fusion, prediction, *alive) if needs_graph else fusion.run(alive)[0]
    return fused(fusion, operands)[0]


def _gradients(
    predicted: list[tuple[float, list[Tensor]]],
    fusion: Fusion,
    operands: Sequence[Any],
    upstream: float,
    wanted: tuple[bool, ...],
) -> list[Tensor]:
    # What is handed over belongs to whoever gets it, who may write on it: it is taken off the list, by one thread only.
    try:
        expected, gradients = predicted.pop()
    except IndexError:
        expected, gradients = math.nan, []
    if _same(expected, upstream):
        return gradients
    del gradients  # before new ones take as much memory
    return _both(fusion, operands, upstream, wanted)[1:]


def _both(fusion: Fusion, operands: Sequence[Any], upstream: float, wanted: tuple[bool, ...]) -> list[Tensor]:
    values, factors = operands[: fusion.count], operands[fusion.count :]
    return list(fusion.both(wanted[: fusion.count]).run([*values, upstream, *factors, *factors]))


def _same(a: float, b: float) -> bool:
    return a == b and math.copysign(1.0, a) == math.copysign(1.0, b)
