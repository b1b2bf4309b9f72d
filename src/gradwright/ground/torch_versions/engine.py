"""Autograd's engine below its public functions, and what it says of the graph it runs through."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.autograd import graph as autograd_graph

from gradwright.ground.hooks import OnTheGraph
from gradwright.ground.torch_versions.capability import Capability, look_up


def _probe() -> str | None:
    x = torch.ones(2, dtype=torch.float64, device="cpu").requires_grad_()
    z = (x * 3).square()
    given = run_engine((z,), (torch.ones_like(z),), True, True, (x,), allow_unreachable=True, accumulate_grad=False)
    right = given[0].tolist() == [18.0, 18.0] and given[0].requires_grad
    calls: list[int] = []

    def count(engine: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*args: Any, **kwargs: Any) -> Any:
            calls.append(1)
            return engine(*args, **kwargs)

        return counted

    with replaced_engine(count):
        torch.autograd.grad(z.sum(), x)
    return None if right and calls == [1] else f"it gave {given[0].tolist()}, and was called {len(calls)} times"


#: Backwards that are run, and watched, below ``torch.autograd.grad``.
ENGINE = Capability("torch.autograd.graph._engine_run_backward", "derivatives of recorded graphs", _probe)

#: Which ``torch.autograd.grad`` and ``backward`` end in: (outputs, cotangents, keep the graph, make one, inputs, ...).
run_engine: Callable[..., Any] = look_up("torch.autograd.graph._engine_run_backward", ENGINE)


def _probe_tasks() -> str | None:
    seen = [current_graph_task_id() == -1]
    x = torch.ones(2, dtype=torch.float64, device="cpu").requires_grad_()
    y = x * 3
    handle: Any = y.register_hook(lambda _: seen.append(current_graph_task_id() >= 0))  # type: ignore[no-untyped-call]  # torch has no types here
    torch.autograd.grad(y.sum(), x)
    OnTheGraph(handle).remove()
    return None if seen == [True, True] else f"its numbers read as {seen}"


#: Telling a call inside of a backward from others.
TASKS = Capability(
    "torch._C._current_graph_task_id", "taps and custom gradients inside of a backward", _probe_tasks, of_doctor=False
)
#: -1 outside of a backward.
current_graph_task_id: Callable[[], int] = look_up("torch._C._current_graph_task_id", TASKS)


def _probe_hooks() -> str | None:
    seen = [top_saved_tensors_default_hooks(True) is None]
    with autograd_graph.saved_tensors_hooks(lambda tensor: tensor, lambda tensor: tensor):
        seen.append(top_saved_tensors_default_hooks(True) is not None)
    return None if all(seen) else f"it sees hooks as {seen}"


#: Seeing ``torch.autograd.graph.saved_tensors_hooks`` of the user's.
HOOKS = Capability(
    "torch._C._autograd._top_saved_tensors_default_hooks", "losses and formulas in one pass", _probe_hooks
)
#: The innermost pair of hooks; None where there is none.
top_saved_tensors_default_hooks: Callable[[bool], Any] = look_up(
    "torch._C._autograd._top_saved_tensors_default_hooks", HOOKS
)


def _probe_sequence() -> str | None:
    before = next_sequence_number()
    x = torch.ones(2, dtype=torch.float64, device="cpu").requires_grad_()
    y = x * 3
    numbers = [before, sequence_number(y.grad_fn), sequence_number((y * y).grad_fn), next_sequence_number()]
    return None if before == numbers[1] < numbers[2] < numbers[3] else f"nodes are numbered {numbers}"


#: The order in which nodes were made.
SEQUENCE = Capability("torch._C._autograd._get_sequence_nr", "finding the line that made a node", _probe_sequence)
#: The number that the next node of this thread gets.
next_sequence_number: Callable[[], int] = look_up("torch._C._autograd._get_sequence_nr", SEQUENCE)


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
