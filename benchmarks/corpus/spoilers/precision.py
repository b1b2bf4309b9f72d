"""Digits lost on the way."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from corpus.spoilers.base import Spoiler, is_real, of_backward, of_cotangent, of_gradient
from corpus.wrapping import Gradients, Wrapping


def _in_float32(ctx: Any, wrapping: Wrapping, cotangents: tuple[Tensor | None, ...]) -> Gradients:
    args = [arg.float().double() if arg.is_floating_point() else arg for arg in ctx.saved_tensors]
    rounded = [None if item is None else item.float().double() for item in cotangents]
    gradients = wrapping.vjp(args, rounded, ctx.needs_input_grad)
    return tuple(None if gradient is None else gradient.float().double() for gradient in gradients)


SPOILERS: list[Spoiler] = [
    of_backward("float32 inside", "precision lost", _in_float32, applies=is_real),
    of_gradient("half precision on the way out", "precision lost", lambda g, _: g.to(torch.bfloat16).to(g.dtype)),
    of_cotangent("cotangent in half precision", "precision lost", lambda g: g.half().to(g.dtype), applies=is_real),
]
