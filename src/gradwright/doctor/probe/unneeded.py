"""Gradients that nobody wants and that a backward computes all the same: which of its operations only they need."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from gradwright.checking import input_names
from gradwright.checking.chance import reproducible, signed
from gradwright.checking.context import run_backward, run_forward
from gradwright.doctor.observed import FunctionUse, Kept
from gradwright.doctor.probe.attempts import Limits, attempt
from gradwright.doctor.probe.shrink import describe, fresh
from gradwright.doctor.session.facts import Fact, UnneededGradient
from gradwright.ground.tensors import tensors_in
from gradwright.ground.torch_versions.modes import TorchDispatchMode
from gradwright.ground.torch_versions.operators import schema_of

REPETITIONS = 5


def unneeded_facts(
    use: FunctionUse, specimens: Sequence[Kept], share: Callable[[float], float], limits: Limits
) -> Iterator[Fact]:
    """At most one fact. ``specimens``: of calls in which some gradient was wanted. Cost: 5 forwards and backwards."""
    kept = max(specimens, key=lambda one: sum(tensor.numel() for tensor in tensors_in(one.args)))
    idle = [
        index
        for index, value in enumerate(kept.args)
        if isinstance(value, Tensor)
        and (value.is_floating_point() or value.is_complex())
        and not any(index < len(one.wanted) and one.wanted[index] for one in specimens)
    ]
    if not idle:
        return
    measured = attempt(lambda: _measured(use, kept, idle), limits)
    if measured.how != "returned" or measured.value is None:
        return
    found, operations, seconds, part, size = measured.value
    names = input_names(use.function, len(kept.args))
    yield UnneededGradient(
        id=f"unneeded gradients {use.subject.id}",
        subject=use.subject.id,
        indices=found,
        names=tuple(names[index] for index in found),
        operations=operations,
        seconds=seconds,
        bytes=size,
        share_of_backward=part,
        share_of_step=part * share(use.backward_seconds),
        tried_on=describe(kept.args),
    )


def _measured(
    use: FunctionUse, kept: Kept, idle: Sequence[int]
) -> tuple[tuple[int, ...], int, float, float, int] | None:
    """The inputs, how many operations only their gradients need, their seconds, their share, the bytes returned.

    Each operation counts with the least time that it took in any run: others were disturbed.
    """
    runs: list[list[tuple[bool, float]]] = []
    for _ in range(REPETITIONS):
        with reproducible(0), torch.no_grad():
            outputs, context = run_forward(use.function, fresh(kept.args), kept.wanted)
            results = outputs if isinstance(outputs, tuple) else (outputs,)
            generator = torch.Generator().manual_seed(0)
            cotangents = [
                signed(one.shape, generator).to(one.device, one.dtype) if isinstance(one, Tensor) else None
                for one in kept.with_cotangent(results)
            ]
            with _Slice() as operations:
                returned = run_backward(use.function, context, cotangents)
        found = tuple(index for index in idle if index < len(returned) and isinstance(returned[index], Tensor))
        wanted = [value for index, value in enumerate(returned) if isinstance(value, Tensor) and index not in found]
        if not found or not wanted:
            return None
        useless = operations.useless_for(wanted)
        size = sum(returned[index].nbytes for index in found)
        runs.append([(any(one is other for other in useless), one.seconds) for one in operations.all])
    alike = [run for run in runs if [wasted for wasted, _ in run] == [wasted for wasted, _ in runs[0]]]
    least = [(step[0][0], min(seconds for _, seconds in step)) for step in zip(*alike, strict=True)]
    seconds = sum(taken for wasted, taken in least if wasted)
    total = sum(taken for _, taken in least)
    return found, sum(wasted for wasted, _ in least), seconds, seconds / max(total, 1e-12), size


@dataclass
class _Operation:
    reads: frozenset[int]
    writes: frozenset[int]
    seconds: float


class _Slice(TorchDispatchMode):  # type: ignore[no-untyped-call]  # torch's own
    """Every operation with the memories that it reads and writes; what it made stays alive: none comes twice."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # torch's own
        self.all: list[_Operation] = []
        self._alive: list[Any] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        started = time.perf_counter()
        result = func(*args, **(kwargs or {}))
        seconds = time.perf_counter() - started
        given = list(tensors_in((args, kwargs or {})))
        made = list(tensors_in(result))
        mutated = given if schema_of(func).is_mutable else []
        self._alive += made
        self.all.append(_Operation(_memories(given), _memories([*made, *mutated]), seconds))
        return result

    def useless_for(self, wanted: Sequence[Tensor]) -> list[_Operation]:
        """Operations nothing of which reaches ``wanted``."""
        live = set(_memories(wanted))
        useless = []
        for operation in reversed(self.all):
            if live & operation.writes:
                live |= operation.reads
            else:
                useless.append(operation)
        return useless


def _memories(tensors: Sequence[Tensor]) -> frozenset[int]:
    return frozenset(tensor.untyped_storage().data_ptr() for tensor in tensors if tensor.layout is torch.strided)
