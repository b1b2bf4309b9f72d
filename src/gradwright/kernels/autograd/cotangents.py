"""What a call keeps for its backward, and what it hands to it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import Tensor

from gradwright.kernels.autograd.fusion import Fusion


def keep(ctx: Any, fusion: Fusion, operands: Sequence[Any]) -> list[Tensor]:
    """Saves the tensors, where a change in place is noticed, and the numbers; returns the tensors."""
    tensors = [operand for operand in operands if isinstance(operand, Tensor)]
    ctx.save_for_backward(*tensors)
    ctx.fusion = fusion
    ctx.numbers = None if len(tensors) == len(operands) else [None if isinstance(o, Tensor) else o for o in operands]
    return tensors


def kept(ctx: Any) -> Sequence[Any]:
    """The operands. Raises: RuntimeError (torch's), where one was changed in place, or the graph is freed."""
    saved: Sequence[Tensor] = ctx.saved_tensors
    if ctx.numbers is None:
        return saved
    tensors = iter(saved)
    return [next(tensors) if number is None else number for number in ctx.numbers]


def back_operands(fusion: Fusion, operands: Sequence[Any], cotangents: Sequence[Tensor | None]) -> list[Any]:
    """The operands of ``fusion.back``."""
    factors = iter(operands[fusion.count :])
    shaped: list[Any] = []
    of_shaped: list[Any] = []
    for output, cotangent in zip(fusion.outputs, cotangents, strict=True):
        factor = next(factors) if output.scaled else None
        if cotangent is None:
            continue
        shaped.append(cotangent.reshape(output.kept) if output.removed else cotangent)
        if output.scaled:
            of_shaped.append(factor)
    return [*operands[: fusion.count], *shaped, *of_shaped]
