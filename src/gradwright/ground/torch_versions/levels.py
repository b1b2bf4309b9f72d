"""Levels of torch.func and of forward mode: which are on, and what is inside the tensors that they wrap.

The names are torch's own, without the underscore.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.autograd import forward_ad

from gradwright.ground.torch_versions.capability import Capability, look_up


def _probe() -> str | None:
    seen: list[tuple[bool, ...]] = []

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
        stack = get_interpreter_stack() or ()
        kinds = [level.key() for level in stack]
        seen.append((kinds == [TransformType.Grad], is_functorch_wrapped_tensor(x), not is_batchedtensor(x)))
        kept.append(x)
        return x * x

    def inside_jvp(x: Tensor) -> Tensor:
        kinds = [level.key() for level in get_interpreter_stack() or ()]
        with set_forward_grad_enabled(False):
            plain = forward_ad.unpack_dual(x * x).tangent is None  # type: ignore[no-untyped-call]
        seen.append((kinds == [TransformType.Jvp], forward_level() == 0, plain))
        return x * x

    kept: list[Tensor] = []
    values = torch.ones(2, 3, dtype=torch.float64, device="cpu")
    seen.append((not are_functorch_transforms_active(), forward_level() == -1, peek_interpreter_stack() is None))
    seen.append((not is_functorch_wrapped_tensor(values), not is_legacy_batchedtensor(values)))
    torch.func.vmap(inside_vmap)(values)
    torch.func.grad(inside_grad)(values[0, 0])
    torch.func.jvp(inside_jvp, (values,), (values,))
    seen.append((is_functorch_wrapped_tensor(kept[0]), not is_functorch_wrapped_tensor(unwrap_if_dead(kept[0]))))
    return None if all(map(all, seen)) else f"its levels read as {seen}"


#: vmap, grad and jvp around Gradwright's own functions, and telling them from plain calls.
LEVELS = Capability("torch._C._functorch", "calls under torch.func and in forward mode", _probe)

are_functorch_transforms_active: Callable[[], bool] = look_up("torch._C._are_functorch_transforms_active", LEVELS)
is_functorch_wrapped_tensor: Callable[[Tensor], bool] = look_up("torch._C._functorch.is_functorch_wrapped_tensor", LEVELS)
is_batchedtensor: Callable[[Tensor], bool] = look_up("torch._C._functorch.is_batchedtensor", LEVELS)
is_functionaltensor: Callable[[Tensor], bool] = look_up("torch._C._functorch.is_functionaltensor", LEVELS)
#: Of the vmap behind ``torch.autograd.grad(is_grads_batched=True)``.
is_legacy_batchedtensor: Callable[[Tensor], bool] = look_up("torch._C._functorch.is_legacy_batchedtensor", LEVELS)
get_unwrapped: Callable[[Tensor], Tensor] = look_up("torch._C._functorch.get_unwrapped", LEVELS)
#: A tensor without the wrapper of a level that is over.
unwrap_if_dead: Callable[[Tensor], Tensor] = look_up("torch._C._functorch.unwrap_if_dead", LEVELS)
maybe_get_level: Callable[[Tensor], int] = look_up("torch._C._functorch.maybe_get_level", LEVELS)
unwrap_batched: Callable[[Tensor, int], tuple[Tensor, int | None]] = look_up(
    "torch._C._functorch._unwrap_batched", LEVELS
)
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
set_forward_grad_enabled: Callable[[bool], AbstractContextManager[object]] = look_up(
    "torch.autograd.forward_ad._set_fwd_grad_enabled", LEVELS
)
# A call of C code, which Dynamo does not compile on its own where it leaves a caller alone.
forward_level: Callable[[], int] = (
    partial(getattr, forward_ad, "_current_level")
    if hasattr(forward_ad, "_current_level")
    else look_up("torch.autograd.forward_ad._current_level", LEVELS)
)
