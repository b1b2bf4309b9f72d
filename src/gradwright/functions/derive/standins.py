"""Tensors without data, whose sizes are symbols: what the forward is run on."""

from __future__ import annotations

import contextlib
import logging
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal, get_args

import torch

from gradwright.ground.torch_versions.fakes import FakeTensorMode
from gradwright.ground.torch_versions.tracing import ConstantSource, DimDynamic, ShapeEnv, StatelessSymbolicContext

# Which sizes are symbols. torch can't follow every size through every view; then fewer of them are.
Symbols = Literal["all", "all but the last", "the first", "none"]
ALL_SYMBOLS: tuple[Symbols, ...] = get_args(Symbols)

_IS_SYMBOL: dict[Symbols, Callable[[int, int], bool]] = {
    "all": lambda axis, rank: True,
    "all but the last": lambda axis, rank: axis < rank - 1,
    "the first": lambda axis, rank: axis == 0,
    "none": lambda axis, rank: False,
}


def stand_ins(tensors: Sequence[torch.Tensor], asks: Sequence[bool], symbols: Symbols) -> list[torch.Tensor]:
    """One per tensor, contiguous, in one fake mode; ``asks``: which require a gradient.

    Equal sizes get symbols of their own: that two are equal is for the forward to say.
    """
    # a number taken from a tensor's values, or a shape that depends on them, raises where it happens
    shape_env = ShapeEnv(duck_shape=False, allow_scalar_outputs=False, allow_dynamic_output_shape_ops=False)
    mode = FakeTensorMode(allow_non_fake_inputs=True, shape_env=shape_env)
    mode.cache_enabled = False  # its keys cost more than what they save
    found: list[torch.Tensor] = []
    for place, (tensor, asking) in enumerate(zip(tensors, asks, strict=True)):
        rank = tensor.dim()
        dynamic = [
            DimDynamic.DYNAMIC if _IS_SYMBOL[symbols](axis, rank) and size > 1 else DimDynamic.STATIC
            for axis, size in enumerate(tensor.shape)
        ]
        plain = tensor.detach().clone(memory_format=torch.contiguous_format).requires_grad_(asking)
        context: Any = StatelessSymbolicContext(dynamic_sizes=dynamic)
        found.append(mode.from_tensor(plain, source=ConstantSource(f"input{place}"), symbolic_context=context))
    return found


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """torch logs a failed trace before it raises; the error that we raise says it better."""
    logger = logging.getLogger("torch._subclasses.fake_tensor")
    before, logger.disabled = logger.disabled, True
    try:
        yield
    finally:
        logger.disabled = before


@contextlib.contextmanager
def roots_of_sizes() -> Iterator[None]:
    """``math.sqrt`` of a size stays a symbol for the time of a trace: q @ k.mT / math.sqrt(q.shape[-1]) is common."""
    plain = math.sqrt

    def sqrt(number: Any) -> Any:
        return number**0.5 if isinstance(number, (torch.SymInt, torch.SymFloat)) else plain(number)

    math.sqrt = sqrt
    try:
        yield
    finally:
        math.sqrt = plain
