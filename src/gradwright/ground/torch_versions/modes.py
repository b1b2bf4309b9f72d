"""Modes of torch: what stands between a call and its operation, and how to look on without being seen by them."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

import torch
from torch.overrides import TorchFunctionMode

from gradwright.ground.torch_versions.capability import Capability, look_up, look_up_class


def _probe_dispatch() -> str | None:
    calls: list[str] = []

    class Noting(TorchDispatchMode):  # type: ignore[no-untyped-call]  # torch has no types here
        @classmethod
        def _should_skip_dynamo(cls) -> bool:
            return False  # the wrapper that skips it would import Dynamo

        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            calls.append(str(func))
            return func(*args, **(kwargs or {}))

    one = torch.ones((), dtype=torch.float64, device="cpu")
    with Noting():  # type: ignore[no-untyped-call]  # torch has no types here
        depths = [len_torch_dispatch_stack()]
        one.neg()
        with disable_current_modes():
            depths.append(len_torch_dispatch_stack())
            one.neg()
    depths.append(len_torch_dispatch_stack())
    return None if calls == ["aten.neg.default"] and depths == [1, 0, 0] else f"a mode saw {calls} at {depths}"


#: Seeing operations, and working unseen by modes that do.
DISPATCH = Capability("torch.utils._python_dispatch.TorchDispatchMode", "looking on at operations", _probe_dispatch)

if TYPE_CHECKING:
    from torch.utils._python_dispatch import TorchDispatchMode as TorchDispatchMode
else:
    TorchDispatchMode = look_up_class("torch.utils._python_dispatch.TorchDispatchMode", DISPATCH)
disable_current_modes: Callable[[], AbstractContextManager[object]] = look_up(
    "torch.utils._python_dispatch._disable_current_modes", DISPATCH
)
len_torch_dispatch_stack: Callable[[], int] = look_up("torch._C._len_torch_dispatch_stack", DISPATCH)


class _Calls(TorchFunctionMode):
    def __init__(self) -> None:
        super().__init__()
        self.seen = 0

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.seen += 1
        return func(*args, **(kwargs or {}))


def _probe_functions() -> str | None:
    one, mode = torch.ones((), dtype=torch.float64, device="cpu"), _Calls()
    depths = [len_torch_function_stack()]
    push_on_torch_function_stack(mode)
    one.neg()
    depths.append(len_torch_function_stack())
    own = get_function_stack_at(0) is mode and pop_torch_function_stack() is mode
    depths.append(len_torch_function_stack())
    one.neg()
    return None if own and depths == [0, 1, 0] and mode.seen == 1 else f"a mode saw {mode.seen} calls at {depths}"


#: Being put on the stack of function modes, and leaving it, between two calls of the script's.
FUNCTIONS = Capability("torch._C._push_on_torch_function_stack", "looking on at a step's torch calls", _probe_functions)

len_torch_function_stack: Callable[[], int] = look_up("torch._C._len_torch_function_stack", FUNCTIONS)
get_function_stack_at: Callable[[int], Any] = look_up("torch._C._get_function_stack_at", FUNCTIONS)
push_on_torch_function_stack: Callable[[Any], None] = look_up("torch._C._push_on_torch_function_stack", FUNCTIONS)
pop_torch_function_stack: Callable[[], Any] = look_up("torch._C._pop_torch_function_stack", FUNCTIONS)


def _probe_unseen() -> str | None:
    one = torch.ones((), dtype=torch.float64, device="cpu")
    with _Calls() as mode:
        one.neg()
        with DisableTorchFunction():
            one.neg()
    return None if mode.seen == 1 else f"a mode saw {mode.seen} calls"


#: Working unseen by function modes.
UNSEEN = Capability("torch._C.DisableTorchFunction", "looks at tensors that the user's modes don't see", _probe_unseen)

if TYPE_CHECKING:
    from torch._C import DisableTorchFunction as DisableTorchFunction
else:
    DisableTorchFunction = look_up("torch._C.DisableTorchFunction", UNSEEN)
#: As the ``__torch_function__`` of a subclass: none.
disabled_torch_function_impl: Any = look_up("torch._C._disabled_torch_function_impl", UNSEEN)


def _probe_states() -> str | None:
    seen = [get_tracing_state() is None, not is_tracing(), not is_any_autocast_enabled()]
    with torch.autocast("cpu", torch.bfloat16):
        seen.append(is_any_autocast_enabled())
    return None if all(seen) else f"its states read as {seen}"


#: States of torch that no mode shows.
STATES = Capability("torch._C._get_tracing_state", "formulas, losses and custom gradients", _probe_states)

is_any_autocast_enabled: Callable[[], bool] = look_up("torch._C._is_any_autocast_enabled", STATES)
#: Of ``torch.jit.trace``: None outside.
get_tracing_state: Callable[[], Any] = look_up("torch._C._get_tracing_state", STATES)
is_tracing: Callable[[], bool] = look_up("torch._C._is_tracing", STATES)


def _probe_switch() -> str | None:
    class Switches(TorchFunctionMode):
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            seen.append(func)
            return func(*args, **(kwargs or {}))

    seen: list[Any] = []
    with Switches(), torch.no_grad():
        pass
    return None if set_grad_enabled_below in seen else "torch.no_grad calls something else"


#: Seeing ``torch.no_grad`` in a forward.
SWITCH = Capability("torch._C._set_grad_enabled", "telling a forward that leaves the graph by no_grad", _probe_switch)
#: What ``torch.no_grad`` calls, as a function mode sees it.
set_grad_enabled_below: Any = look_up("torch._C._set_grad_enabled", SWITCH)
