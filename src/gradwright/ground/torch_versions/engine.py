"""Autograd's engine below its public functions, and what it says of the graph it runs through."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.autograd import graph as autograd_graph

from gradwright.ground.torch_versions.capability import Capability, look_up


def _probe() -> str | None:
    seen: list[Any] = [current_graph_task_id()]
    x = torch.ones(2, dtype=torch.float64, device="cpu").requires_grad_()
    before = next_sequence_number()
    y = x * 3
    z = y * y
    ordered = before <= sequence_number(y.grad_fn) < sequence_number(z.grad_fn) < next_sequence_number()
    handle: Any = y.grad_fn.register_prehook(lambda cotangents: seen.append(current_graph_task_id() >= 0))  # type: ignore[union-attr]  # it has one
    given = run_backward((z,), (torch.ones_like(z),), True, True, (x,), allow_unreachable=True, accumulate_grad=False)
    handle.remove()
    right = given[0].tolist() == [18.0, 18.0] and given[0].requires_grad and seen == [-1, True]
    hooks = top_saved_tensors_default_hooks(True) is None
    with autograd_graph.saved_tensors_hooks(lambda t: t, lambda t: t):
        hooks = hooks and top_saved_tensors_default_hooks(True) is not None
    calls: list[int] = []
    with replaced_engine(lambda engine: lambda *args, **kwargs: (calls.append(1), engine(*args, **kwargs))[1]):
        z.sum().backward()
    return None if right and ordered and hooks and calls == [1] else f"it gave {given[0].tolist()}, saw {seen}, {calls}"


#: Backwards that are run, and watched, below ``torch.autograd.grad``.
ENGINE = Capability("torch.autograd.graph._engine_run_backward", "derivatives of recorded graphs", _probe)

#: Which ``torch.autograd.grad`` and ``backward`` end in: (outputs, cotangents, keep the graph, make one, inputs, ...).
run_backward: Callable[..., Any] = look_up("torch.autograd.graph._engine_run_backward", ENGINE)
#: -1 outside of a backward.
current_graph_task_id: Callable[[], int] = look_up("torch._C._current_graph_task_id", ENGINE)
#: The number that the next node of this thread gets.
next_sequence_number: Callable[[], int] = look_up("torch._C._autograd._get_sequence_nr", ENGINE)
#: The innermost pair of ``saved_tensors_hooks``; None where there is none.
top_saved_tensors_default_hooks: Callable[[bool], Any] = look_up(
    "torch._C._autograd._top_saved_tensors_default_hooks", ENGINE
)


def sequence_number(node: Any) -> int:
    """When a node was made, counted in its thread; the node of a leaf has a number beyond all others."""
    number: int = node._sequence_nr()
    return number


@contextmanager
def replaced_engine(wrap: Callable[[Callable[..., Any]], Callable[..., Any]]) -> Iterator[None]:
    """Inside, every backward of this process calls what ``wrap`` makes of the engine's own entry."""
    module: Any = torch.autograd
    engine = module._engine_run_backward
    module._engine_run_backward = wrap(engine)
    try:
        yield
    finally:
        module._engine_run_backward = engine
