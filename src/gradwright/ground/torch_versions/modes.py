"""Modes of torch: what stands between a call and its operation, and how to look on without being seen by them."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from gradwright.ground.torch_versions.capability import Capability, look_up, look_up_class


def _probe() -> str | None:
    calls: list[str] = []

    class Dispatch(TorchDispatchMode):
        @classmethod
        def _should_skip_dynamo(cls) -> bool:
            return False  # the wrapper that skips it would import Dynamo

        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            calls.append("dispatch")
            return func(*args, **(kwargs or {}))

    class Functions(TorchFunctionMode):
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            calls.append("function")
            return func(*args, **(kwargs or {}))

    one = torch.ones((), dtype=torch.float64, device="cpu")
    with Dispatch():  # type: ignore[no-untyped-call]  # torch has no types here
        stacked = len_torch_dispatch_stack() == 1
        one.neg()
        with disable_current_modes():
            stacked = stacked and len_torch_dispatch_stack() == 0
            one.neg()
    with Functions() as mode:
        stacked = stacked and len_torch_function_stack() == 1 and get_function_stack_at(0) is mode
        one.neg()
        with DisableTorchFunction():
            one.neg()
    push_on_torch_function_stack(mode)
    one.neg()
    stacked = stacked and pop_torch_function_stack() is mode and not len_torch_function_stack()
    seen = calls == ["dispatch", "function", "function"]
    return None if stacked and seen else f"its modes saw {calls}"


#: Seeing operations, and working unseen by the modes that are on.
MODES = Capability("torch.utils._python_dispatch", "looking on at operations", _probe)

if TYPE_CHECKING:
    from torch._C import DisableTorchFunction as DisableTorchFunction
    from torch.utils._python_dispatch import TorchDispatchMode as TorchDispatchMode
else:
    TorchDispatchMode = look_up_class("torch.utils._python_dispatch.TorchDispatchMode", MODES)
    DisableTorchFunction = look_up("torch._C.DisableTorchFunction", MODES)
disable_current_modes: Callable[[], AbstractContextManager[object]] = look_up(
    "torch.utils._python_dispatch._disable_current_modes", MODES
)
len_torch_dispatch_stack: Callable[[], int] = look_up("torch._C._len_torch_dispatch_stack", MODES)
len_torch_function_stack: Callable[[], int] = look_up("torch._C._len_torch_function_stack", MODES)
get_function_stack_at: Callable[[int], Any] = look_up("torch._C._get_function_stack_at", MODES)
push_on_torch_function_stack: Callable[[Any], None] = look_up("torch._C._push_on_torch_function_stack", MODES)
pop_torch_function_stack: Callable[[], Any] = look_up("torch._C._pop_torch_function_stack", MODES)
#: As the ``__torch_function__`` of a subclass: none.
disabled_torch_function_impl: Any = look_up("torch._C._disabled_torch_function_impl", MODES)


def _probe_states() -> str | None:
    def traced(x: Tensor) -> Tensor:
        seen.append(get_tracing_state() is not None and is_tracing())
        return x

    seen = [get_tracing_state() is None, not is_tracing(), not is_any_autocast_enabled()]
    with torch.autocast("cpu", torch.bfloat16):
        seen.append(is_any_autocast_enabled())
    return None if all(seen) else f"its states read as {seen}"


#: States of torch that no mode shows.
STATES = Capability("torch._C._get_tracing_state", "formulas and custom gradients", _probe_states)

is_any_autocast_enabled: Callable[[], bool] = look_up("torch._C._is_any_autocast_enabled", STATES)
#: Of ``torch.jit.trace``: None outside.
get_tracing_state: Callable[[], Any] = look_up("torch._C._get_tracing_state", STATES)
is_tracing: Callable[[], bool] = look_up("torch._C._is_tracing", STATES)
#: What ``torch.no_grad`` calls, as a function mode sees it.
set_grad_enabled_below: Any = look_up("torch._C._set_grad_enabled", STATES)
