"""Which of torch.func's transforms are on, and what is inside the tensors they wrap."""

from __future__ import annotations

from torch import Tensor
from torch.autograd import forward_ad

from gradwright.ground.torch_versions.levels import (
    TransformType,
    add_batch_dim,
    forward_level,
    get_interpreter_stack,
    is_batchedtensor,
    maybe_get_level,
    unwrap_batched,
)


def forward_mode_is_on() -> bool:
    """Is there a forward-mode level, of torch.autograd.forward_ad or of torch.func.jvp?"""
    if forward_level() >= 0:
        return True
    return any(level.key() == TransformType.Jvp for level in get_interpreter_stack() or ())


def primal(tensor: Tensor) -> Tensor:
    """Without the tangent of the innermost forward-mode level."""
    if not tensor.is_floating_point():
        return tensor
    if is_batchedtensor(tensor):  # a vmap inside this level, for which unpacking has no batching rule
        level = maybe_get_level(tensor)
        values, axis = unwrap_batched(tensor, level)
        return tensor if axis is None else add_batch_dim(primal(values), axis, level)
    bare: Tensor = forward_ad.unpack_dual(tensor, level=0).primal  # type: ignore[no-untyped-call]
    return bare
