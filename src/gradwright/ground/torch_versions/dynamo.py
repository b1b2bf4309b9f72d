"""Dynamo: functions that it leaves alone, graph breaks, and what it is doing. It is never imported by this.

Where a graph breaks around a call, Dynamo still compiles, one by one, the functions that are called on the way, among
them those that look at version counters, which it takes for constants. What ``torch.compiler.disable`` does is too dear
for a small call; a mark on the code object costs nothing.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any, TypeVar

import torch

from gradwright.ground.torch_versions.capability import Capability, Missing, look_up

F = TypeVar("F", bound=Callable[..., Any])


def _probe() -> str | None:
    return None if _strategies is not None else "code objects can't be marked"


#: Without the marks compiled programs are compiled more often than needed, and nothing else.
MARKS = Capability(
    "torch._C._dynamo.eval_frame.set_code_exec_strategy", "quick starts of compiled programs", _probe, of_doctor=False
)
_set_strategy: Any = look_up("torch._C._dynamo.eval_frame.set_code_exec_strategy", MARKS)
_Strategy: Any = look_up("torch._C._dynamo.eval_frame._FrameExecStrategy", MARKS)
_Action: Any = look_up("torch._C._dynamo.eval_frame._FrameAction", MARKS)
#: For a frame alone, and for all that it calls; None where this torch has no marks.
_strategies = (
    None if MARKS.missing else (_Strategy(_Action.SKIP, _Action.DEFAULT), _Strategy(_Action.SKIP, _Action.SKIP))
)


def uncompiled(function: F) -> F:
    """The function, whose own frame Dynamo never compiles; what it calls may be."""
    if _strategies is not None:
        _set_strategy(function.__code__, _strategies[0])
    return function


def uncompiled_throughout(function: F) -> F:
    """The function, of which Dynamo compiles neither its own frame nor what it calls."""
    if _strategies is not None:
        _set_strategy(function.__code__, _strategies[1])
    return function


uncompiled(uncompiled)
uncompiled(uncompiled_throughout)


def constant_in_traces(function: F) -> F:
    """As ``torch.compiler.assume_constant_result``, which imports Dynamo (a second) to set this mark."""
    function._dynamo_marked_constant = True  # type: ignore[attr-defined]  # Dynamo reads it of any function
    return function


_disable: Any = look_up("torch._compile._disable_dynamo", MARKS)


def run_outside(function: F) -> F:
    """The function, for which Dynamo breaks its graph; unlike ``torch.compiler.disable``, which it falls back on, it
    imports Dynamo at its first call only."""
    disable: Any = torch.compiler.disable if isinstance(_disable, Missing) else _disable
    made: F = disable(function)
    return made


#: Seeing which Functions Dynamo traces.
TRACED = Capability(
    "torch._dynamo.variables.misc.AutogradFunctionVariable.call_apply",
    "Functions whose backward torch.compile leaves out",
)
#: The module that a Function is traced by, and what stands there for a transform that Dynamo has entered itself.
TRACING_MODULE = "torch._dynamo.variables.misc"
_GRAD = "GradIncrementNestingCtxManagerVariable"  # torch.func.grad, vjp, jacrev


def find_traced_apply(module: Any) -> tuple[Any, Callable[..., Any]] | None:
    """In Dynamo's loaded module: the class whose ``call_apply(variable, tx, ...)`` traces a Function's ``apply``, and
    that method; None, and known as lacking from now on, where this torch traces in another way."""
    owner = getattr(module, "AutogradFunctionVariable", None)
    method = getattr(owner, "call_apply", None)
    if owner is None or method is None:
        TRACED.missing = [TRACED.name]
        return None
    return owner, method


def is_inside_grad(tx: Any) -> bool:
    """Whether the frame that Dynamo traces has entered a transform of its own that it has not left."""
    contexts: list[Any] = [getattr(hook, "__self__", None) for hook in tx.output.cleanup_hooks]
    return any(type(context).__name__ == _GRAD and context.cleanup_fn is not None for context in contexts)


def load_dynamo() -> None:
    """Import it, where it will be needed: two seconds."""
    importlib.import_module("torch._dynamo")


def break_graph(why: str) -> None:
    """For code that Dynamo traces: it ends its graph here."""
    torch._dynamo.graph_break(msg=why)
