"""What a piece of work takes of memory, counted beside torch's own profiler; in the caller's modes."""

from __future__ import annotations

import gc
from collections.abc import Callable
from contextlib import AbstractContextManager

import pytest
import torch
from tests.ground.metered import peak_of
from torch import nn

from gradwright.errors import UsageError
from gradwright.ground.memory import Taken, memory_of

CPU = torch.device("cpu")


def test_the_meter_counts_what_is_inside_of_an_operation() -> None:
    net, x = nn.BatchNorm1d(64).eval(), torch.randn(256, 64, requires_grad=True)
    y = net(x)
    call = lambda: torch.autograd.grad(y, x, torch.ones_like(y), retain_graph=True)  # noqa: E731
    assert memory_of(call, CPU).peak_bytes == peak_of(call)


def test_the_meter_leaves_the_callers_profiler_alone() -> None:
    def measured() -> object:
        kept = torch.zeros(1000)
        assert memory_of(lambda: torch.zeros(500), CPU).peak_bytes == 2000
        return kept, torch.zeros(250)

    assert peak_of(measured) >= 5000


def test_an_error_inside_the_meter_is_the_callers() -> None:
    def fail() -> None:
        raise ValueError("no such thing")

    with pytest.raises(ValueError, match="no such thing"):
        memory_of(fail, CPU)
    assert memory_of(lambda: torch.zeros(500), CPU).kept_bytes == 2000


def test_other_devices_are_not_measured() -> None:
    with pytest.raises(UsageError, match="not measured"):
        memory_of(lambda: None, torch.device("meta"))


def test_memory_on_a_gpu_is_that_of_the_device_that_is_asked_about(monkeypatch: pytest.MonkeyPatch) -> None:
    allocated = {torch.device("cuda", 0): 7, torch.device("cuda", 1): 100}
    peak = dict(allocated)

    def work() -> object:
        peak[torch.device("cuda", 1)], allocated[torch.device("cuda", 1)] = 190, 140
        return object()

    monkeypatch.setattr(torch.cuda, "memory_allocated", lambda device: allocated[device])
    monkeypatch.setattr(torch.cuda, "reset_peak_memory_stats", lambda device: peak.update({device: allocated[device]}))
    monkeypatch.setattr(torch.cuda, "max_memory_allocated", lambda device: peak[device])
    assert memory_of(work, torch.device("cuda", 1)) == Taken(peak_bytes=90, kept_bytes=40)
    assert memory_of(lambda: None, torch.device("cuda", 0)) == Taken(peak_bytes=0, kept_bytes=0)


@pytest.mark.parametrize("mode", [torch.enable_grad, torch.no_grad], ids=["enable_grad", "no_grad"])
def test_the_work_runs_in_the_callers_mode(mode: Callable[[], AbstractContextManager[object]]) -> None:
    x = torch.ones(1000, requires_grad=True)
    recorded: list[bool] = []
    with mode():
        memory_of(lambda: recorded.append((x.exp() * 2).requires_grad), CPU)
        recorded.append((x * 2).requires_grad)
    assert recorded[0] is recorded[1]


def test_what_an_earlier_measurement_left_as_garbage_is_not_released_on_the_account_of_this_one() -> None:
    def leave_garbage() -> None:
        cycle: list[object] = [torch.zeros(100_000)]
        cycle.append(cycle)

    def work() -> torch.Tensor:
        made = torch.zeros(1000)
        kept = [[] for _ in range(10_000)]  # type: ignore[var-annotated]  # new objects: the collector would come by
        del kept
        return made

    for _ in range(3):
        memory_of(leave_garbage, CPU)
        assert memory_of(work, CPU).kept_bytes == 4000
    assert gc.isenabled()
