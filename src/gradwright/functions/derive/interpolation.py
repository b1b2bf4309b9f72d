"""Interpolation in a trace: one call forward, one back.

Where sizes are symbols, torch replaces its interpolations by reads and writes at indices, whose backward takes
several times as long as its own kernel. For the time of a trace the kernels are kept.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch

from gradwright.ground.torch_versions.decompositions import (
    INTERPOLATION,
    DispatchKey,
    forget_kernels,
    upsample_compute_output_size,
)

NAMES = (
    "upsample_nearest1d", "upsample_nearest2d", "upsample_nearest3d", "_upsample_nearest_exact1d",
    "_upsample_nearest_exact2d", "_upsample_nearest_exact3d", "upsample_linear1d", "upsample_bilinear2d",
    "upsample_trilinear3d", "upsample_bicubic2d",
)  # fmt: skip


@contextlib.contextmanager
def whole_interpolation() -> Iterator[None]:
    """torch's decompositions of interpolation are set aside, and put back. Where this torch does not let them be, they
    stay: what is derived is right, and slower."""
    if not INTERPOLATION.is_there:
        yield
        return
    keys = (DispatchKey.Autograd, DispatchKey.CompositeImplicitAutograd)
    before: list[tuple[Any, dict[Any, Any]]] = []

    def change(op: Any, changes: dict[Any, Any]) -> None:
        before.append((op, dict(op.py_kernels)))
        for key in keys:
            op.py_kernels.pop(key, None)
        op.py_kernels.update(changes)
        forget_kernels(op)

    try:
        for name in NAMES:
            packet, backward = getattr(torch.ops.aten, name), getattr(torch.ops.aten, f"{name}_backward")
            change(packet.default, {})
            change(packet.vec, dict.fromkeys(keys, _of_factors(packet.default)))
            change(backward.default, {DispatchKey.Meta: _like_input})
        yield
    finally:
        for op, kernels in before:
            op.py_kernels.clear()
            op.py_kernels.update(kernels)
            forget_kernels(op)


def _of_factors(op: Any) -> Callable[..., torch.Tensor]:
    """The overload that takes scale factors, as the one that takes sizes."""

    def call(tensor: torch.Tensor, output_size: Any, *rest: Any) -> torch.Tensor:
        *flags, factors = rest
        sizes = upsample_compute_output_size(tensor.shape, output_size, factors)
        scales = [None] * (len(tensor.shape) - 2) if factors is None else factors
        found: torch.Tensor = op(tensor, sizes, *flags, *scales)
        return found

    return call


def _like_input(grad: torch.Tensor, output_size: Any, input_size: Sequence[Any], *rest: Any, **options: Any) -> Any:
    return grad.new_empty(input_size)
