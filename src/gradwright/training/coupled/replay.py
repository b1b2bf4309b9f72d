"""What has to be as it was, so that a forward gives the same outputs again: random numbers, buffers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from gradwright.ground.torch_versions.modules import own_buffers
from gradwright.training.randomness import put_back, random_state

#: How far two runs of the same forward may lie apart, of their size: rounding, of other kernels or another order.
ROUNDING = {torch.float64: 1e-6, torch.float32: 1e-2, torch.float16: 0.2, torch.bfloat16: 0.2}


class Draws:
    """The state of the generators of torch (CPU and every CUDA device in use), Python and NumPy, as it is now.

    A ``torch.Generator`` of the user's own is not among them.
    """

    def __init__(self) -> None:
        self._state = random_state()

    def put_back(self) -> None:
        put_back(self._state)


@contextmanager
def left_alone(model: nn.Module) -> Iterator[None]:
    """What forwards change of a model in it is undone behind it: buffers (running statistics move once), and which
    forward of a DistributedDataParallel is the one that sends buffers around.

    Memory: a copy of the buffers.
    """
    kept = [
        (own_buffers(module), name, buffer, buffer.detach().clone() if buffer.layout is torch.strided else None)
        for module in model.modules()
        for name, buffer in own_buffers(module).items()
        if buffer is not None
    ]
    sends = getattr(model, "require_forward_param_sync", None)
    try:
        yield
    finally:
        with torch.no_grad():
            for store, name, buffer, values in kept:
                store[name] = buffer
                if values is not None and not torch.equal(
                    buffer, values
                ):  # its version tells nothing: batch_norm writes past it
                    buffer.copy_(values)
        if sends is not None:
            model.require_forward_param_sync = sends


def mark(outputs: Sequence[Any]) -> list[tuple[torch.dtype, Tensor]]:
    """Of each real or complex tensor its sum and its size: what a second run has to give again. Nothing is waited
    for."""
    marks = []
    for leaf in outputs:
        if isinstance(leaf, Tensor) and (leaf.is_floating_point() or leaf.is_complex()):
            real = torch.view_as_real(leaf.detach().resolve_conj()) if leaf.is_complex() else leaf.detach()
            wide = torch.promote_types(real.dtype, torch.float32)
            marks.append((real.dtype, torch.stack([real.sum(dtype=wide), torch.linalg.vector_norm(real, dtype=wide)])))
    return marks


def alike(before: Sequence[tuple[torch.dtype, Tensor]], after: Sequence[tuple[torch.dtype, Tensor]]) -> bool:
    """Whether two runs gave the same, up to rounding; NaN is like NaN."""
    if len(before) != len(after):
        return False
    for (dtype, one), (_, other) in zip(before, after, strict=True):
        if not bool(one.isfinite().all()) or not bool(other.isfinite().all()):
            if not torch.equal(one.isfinite(), other.isfinite()):
                return False
            continue
        if float((one - other).abs().max()) > ROUNDING.get(dtype, 0.2) * max(float(one[1]), float(other[1])):
            return False
    return True
