"""What a call of a function costs, forward and backward: seconds, and bytes saved in between."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

Call = Callable[..., Any]


def wanted(inputs: Sequence[Any]) -> list[Tensor]:
    return [value for value in inputs if isinstance(value, Tensor) and value.requires_grad]


def differentiable(returned: Any) -> list[Tensor]:
    outputs = returned if isinstance(returned, tuple) else (returned,)
    return [value for value in outputs if isinstance(value, Tensor) and value.requires_grad]


def cotangents(outputs: Sequence[Tensor]) -> list[Tensor]:
    """The same numbers for the same shapes."""
    source = torch.Generator().manual_seed(7)
    return [torch.randn(one.shape, dtype=torch.float64, generator=source).to(one.dtype) for one in outputs]


def gradients(call: Call, inputs: Sequence[Any], given: Sequence[Tensor] = ()) -> tuple[Tensor | None, ...]:
    """The vjp with ``given`` (the same cotangents as always, if there are none)."""
    outputs = differentiable(call(*inputs))
    return torch.autograd.grad(outputs, wanted(inputs), list(given) or cotangents(outputs), allow_unused=True)


def saved_bytes(call: Call, inputs: Sequence[Any]) -> int:
    """Bytes of the distinct storages that autograd keeps for the backward, inputs and outputs among them."""
    kept: dict[int, Tensor] = {}

    def pack(tensor: Tensor) -> Tensor:
        kept[tensor.untyped_storage().data_ptr()] = tensor  # kept alive, so that no other storage gets its address
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        returned = call(*inputs)
    assert differentiable(returned)
    return sum(tensor.untyped_storage().nbytes() for tensor in kept.values())


def interleaved(calls: Mapping[str, Call], inputs: Sequence[Any], rounds: int, least: float) -> dict[str, list[float]]:
    """Seconds of this thread for forward and backward, per way: one figure per round, the ways in turn.

    A figure is the mean of as many calls as take ``least`` seconds. Time of the thread, not of the clock: on one thread
    they are the same, and what other processes do counts less.
    """
    given = cotangents(differentiable(next(iter(calls.values()))(*inputs)))

    def seconds(call: Call, times: int) -> float:
        started = time.thread_time()
        for _ in range(times):
            gradients(call, inputs, given)
        return (time.thread_time() - started) / times

    times = {name: max(1, round(least / max(seconds(call, 2), 1e-7))) for name, call in calls.items()}
    names = list(calls)
    measured: dict[str, list[float]] = {name: [] for name in names}
    for number in range(rounds):
        turn = number % len(names)
        for name in (*names[turn:], *names[:turn]):
            measured[name].append(seconds(calls[name], times[name]))
    return measured


def ratio(measured: Sequence[float], baseline: Sequence[float]) -> float:
    """The median over the rounds of what was measured side by side."""
    return statistics.median(one / other for one, other in zip(measured, baseline, strict=True))
