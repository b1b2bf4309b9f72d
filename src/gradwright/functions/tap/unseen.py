"""Where a tap can't look: what is said of it in the table, so that no figure is wrong and no run is broken."""

from __future__ import annotations

import torch
from torch import Tensor

from gradwright.ground.tensors import is_being_captured
from gradwright.ground.torch_versions.levels import (
    get_unwrapped,
    is_batchedtensor,
    is_functionaltensor,
    is_functorch_wrapped_tensor,
    is_legacy_batchedtensor,
)
from gradwright.ground.torch_versions.modes import is_tracing

COMPILED = "inside torch.compile"
VMAP = "inside torch.vmap"
NOTHING = "None was passed"


def why_unseen(tensor: Tensor) -> str:
    """Why the values of ``tensor`` can't be measured here; "" if they can."""
    if is_tracing():
        return "inside torch.jit.trace"
    if is_legacy_batchedtensor(tensor):  # torch.autograd.grad(is_grads_batched=True)
        return VMAP
    while is_functorch_wrapped_tensor(tensor):
        if is_batchedtensor(tensor) or is_functionaltensor(tensor):
            return VMAP if is_batchedtensor(tensor) else "a tensor that torch.func.functionalize tracks"
        tensor = get_unwrapped(tensor)
    if torch.nn.parameter.is_lazy(tensor):
        return "a lazy parameter, not initialised yet"
    if tensor.is_meta:
        return "a tensor without values (meta)"
    if tensor.is_nested:
        return "a nested tensor (tap its .values())"
    if type(tensor) is not Tensor and _wraps_another(tensor):
        return f"a {type(tensor).__name__}, whose values are not its own"
    if is_being_captured(tensor):
        return "inside the capture of a CUDA graph"
    return ""


def _wraps_another(tensor: Tensor) -> bool:
    """A subclass with a dispatch of its own: what it shows lies elsewhere (DTensor) or nowhere (FakeTensor)."""
    return type(tensor).__torch_dispatch__ is not Tensor.__torch_dispatch__
