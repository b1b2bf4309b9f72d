"""Levels of torch.func and of forward mode: which are on, and what is inside the tensors that they wrap.

The names are torch's own, without the underscore.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import torch
from torch import Tensor
from torch.autograd import forward_ad

from gradwright.ground.torch_versions.capability import Capability, look_up, look_up_variable
from gradwright.ground.torch_versions.dynamo import uncompiled


def _probe() -> str | None:
    values = torch.ones(2, dtype=torch.float64, device="cpu")
    plain = not are_functorch_transforms_active() and not is_functorch_wrapped_tensor(values)
    plain = plain and unwrap_if_dead(values) is values and not is_legacy_batchedtensor(values)
    return None if plain else "it takes a plain tensor for a wrapped one"


#: Telling plain calls from those under torch.func. What is inside of one is tried when one is met: see ``LEVELS``.
TRANSFORMS = Capability(
    "torch._C._are_functorch_transforms_active", "telling calls under torch.func from others", _probe
)

are_functorch_transforms_active: Callable[[], bool] = look_up("torch._C._are_functorch_transforms_active", TRANSFORMS)
is_functorch_wrapped_tensor: Callable[[Tensor], bool] = look_up(
    "torch._C._functorch.is_functorch_wrapped_tensor", TRANSFORMS
)
#: Of the vmap behind ``torch.autograd.grad(is_grads_batched=True)``.
is_legacy_batchedtensor: Callable[[Tensor], bool] = look_up("torch._C._functorch.is_legacy_batchedtensor", TRANSFORMS)
#: A tensor without the wrapper of a level that is over.
unwrap_if_dead: Callable[[Tensor], Tensor] = look_up("torch._C._functorch.unwrap_if_dead", TRANSFORMS)


def _probe_forward_mode() -> str | None:
    """Without a tangent: the first one of a process makes torch load its decompositions (0.4 s)."""
    seen = [forward_level() == -1]
    with forward_ad.dual_level(), set_forward_grad_enabled(False):
        seen.append(forward_level() >= 0)
    return None if all(seen) else f"inside a level it says {seen}"


#: Forward mode.
FORWARD = Capability("torch.autograd.forward_ad._current_level", "forward mode", _probe_forward_mode, of_doctor=False)

set_forward_grad_enabled: Callable[[bool], AbstractContextManager[object]] = look_up(
    "torch.autograd.forward_ad._set_fwd_grad_enabled", FORWARD
)
#: -1 outside of forward mode.
forward_level: Callable[[], int] = look_up_variable("torch.autograd.forward_ad._current_level", FORWARD)


def _probe_levels() -> str | None:
    """Without a jvp: the first one of a process makes torch load its decompositions (0.4 s)."""
    seen: list[tuple[bool, ...]] = []
    kept: list[Tensor] = []

    def inside_vmap(x: Tensor) -> Tensor:
        level = retrieve_current_functorch_interpreter()
        of_vmap = isinstance(level, VmapInterpreter) and level.batch_size() == 2
        wrapped = is_functorch_wrapped_tensor(x) and is_batchedtensor(x) and maybe_get_level(x) == level.level()
        values, axis = unwrap_batched(x, level.level())
        whole = values.shape == get_unwrapped(x).shape == (2, 3) and axis == 0
        with DisableFuncTorch():
            whole = whole and float(get_unwrapped(x).sum()) == 6.0
        again = is_batchedtensor(add_batch_dim(values, axis, level.level()))
        with temporarily_clear_interpreter_stack():
            cleared = peek_interpreter_stack() is None
        seen.append((are_functorch_transforms_active(), of_vmap, wrapped, whole, again, cleared))
        return x

    def inside_grad(x: Tensor) -> Tensor:
        kinds = [level.key() for level in get_interpreter_stack() or ()]
        seen.append((kinds == [TransformType.Grad], is_functorch_wrapped_tensor(x), not is_batchedtensor(x)))
        kept.append(x)
        return x * x

    values = torch.ones(2, 3, dtype=torch.float64, device="cpu")
    torch.func.vmap(inside_vmap)(values)
    torch.func.grad(inside_grad)(values[0, 0])
    seen.append((is_functorch_wrapped_tensor(kept[0]), not is_functorch_wrapped_tensor(unwrap_if_dead(kept[0]))))
    seen.append((hasattr(TransformType, "Jvp"),))
    return None if all(map(all, seen)) else f"its levels read as {seen}"


#: What is inside a call under vmap, grad or jvp. Tried where one is met: torch.func is loaded by then (1 s).
LEVELS = Capability("torch._C._functorch", "calls under torch.func", _probe_levels, of_doctor=False)

is_batchedtensor: Callable[[Tensor], bool] = look_up("torch._C._functorch.is_batchedtensor", LEVELS)
is_functionaltensor: Callable[[Tensor], bool] = look_up("torch._C._functorch.is_functionaltensor", LEVELS)
get_unwrapped: Callable[[Tensor], Tensor] = look_up("torch._C._functorch.get_unwrapped", LEVELS)
maybe_get_level: Callable[[Tensor], int] = look_up("torch._C._functorch.maybe_get_level", LEVELS)
unwrap_batched: Callable[[Tensor, int], tuple[Tensor, Any]] = look_up("torch._C._functorch._unwrap_batched", LEVELS)
add_batch_dim: Callable[[Tensor, int, int], Tensor] = look_up("torch._C._functorch._add_batch_dim", LEVELS)
get_interpreter_stack: Callable[[], list[Any] | None] = look_up("torch._C._functorch.get_interpreter_stack", LEVELS)
peek_interpreter_stack: Callable[[], Any] = look_up("torch._C._functorch.peek_interpreter_stack", LEVELS)
TransformType: Any = look_up("torch._C._functorch.TransformType", LEVELS)
DisableFuncTorch: Callable[[], AbstractContextManager[object]] = look_up("torch._C._DisableFuncTorch", LEVELS)
VmapInterpreter: Any = look_up("torch._functorch.pyfunctorch.VmapInterpreter", LEVELS)
retrieve_current_functorch_interpreter: Callable[[], Any] = look_up(
    "torch._functorch.pyfunctorch.retrieve_current_functorch_interpreter", LEVELS
)
temporarily_clear_interpreter_stack: Callable[[], AbstractContextManager[object]] = look_up(
    "torch._functorch.pyfunctorch.temporarily_clear_interpreter_stack", LEVELS
)


def is_transformed() -> bool:
    """Is there a level of torch.func, or of forward mode?"""
    return are_functorch_transforms_active() or forward_level() >= 0


@uncompiled
def forward_mode_is_on() -> bool:
    """Is there a forward-mode level, of torch.autograd.forward_ad or of torch.func.jvp?"""
    if forward_level() >= 0:
        return True
    return any(level.key() == TransformType.Jvp for level in get_interpreter_stack() or ())


def primal(tensor: Tensor) -> Tensor:
    """Without the tangent of the innermost forward-mode level."""
    if not (tensor.is_floating_point() or tensor.is_complex()):
        return tensor
    if is_batchedtensor(tensor):  # a vmap inside this level, for which unpacking has no batching rule
        level = maybe_get_level(tensor)
        values, axis = unwrap_batched(tensor, level)
        return tensor if axis is None else add_batch_dim(primal(values), axis, level)
    bare: Tensor = forward_ad.unpack_dual(tensor, level=0).primal  # type: ignore[no-untyped-call]  # torch has no types here
    return bare
