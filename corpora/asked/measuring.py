"""Every way in every round, in turn; operations and bytes counted where they are the same in each run."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from gradwright.ground.memory import memory_of
from gradwright.ground.operations import only_views
from gradwright.ground.page_faults import faults_of_this_thread

ENOUGH = 4e-3  # CPU seconds of one turn, at least
MOST = 200  # calls in a turn
Ways = Mapping[str, Callable[[], Any]]


def in_turn(ways: Ways, rounds: int) -> dict[str, list[float]]:
    """CPU seconds of a call, by way and round. The first turn says how often one is called, and is not counted."""
    calls = {}
    for name, way in ways.items():
        way()
        calls[name] = min(MOST, max(1, round(ENOUGH / max(_seconds(way, 1), 1e-7))))
    took: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(rounds):
        for name, way in ways.items():
            took[name].append(_seconds(way, calls[name]))
    return took


def _seconds(way: Callable[[], Any], calls: int) -> float:
    start = time.process_time()
    for _ in range(calls):
        way()
    return (time.process_time() - start) / calls


def middle(took: list[float]) -> float:
    return statistics.median(took)


def ratio(took: list[float], beside: list[float]) -> float:
    """The median of the rounds' ratios."""
    return statistics.median(one / other for one, other in zip(took, beside, strict=True))


class Operations(TorchDispatchMode):
    """Counts what torch dispatches: ``computed`` writes bytes, ``views`` only hand out another view."""

    def __init__(self) -> None:
        super().__init__()
        self.computed = self.views = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        is_view = only_views(func) or func is torch.ops.aten.detach.default
        self.views += is_view
        self.computed += not is_view
        return func(*args, **(kwargs or {}))


def operations(way: Callable[[], Any]) -> Operations:
    with Operations() as counted:
        way()
    return counted


def peak_bytes(way: Callable[[], Any]) -> int:
    return memory_of(way, torch.device("cpu")).peak_bytes


def page_faults(way: Callable[[], Any]) -> int:
    """Of a call, once the allocator has settled."""
    met = []
    for _ in range(5):
        before = faults_of_this_thread()
        way()
        met.append(faults_of_this_thread() - before)
    return int(statistics.median(met[2:]))


def error(found: Tensor, true: Tensor) -> str:
    """The largest difference, relative to the largest true entry."""
    off = float((found.double() - true.double()).abs().max() / true.double().abs().max())
    return "0" if off == 0 else f"{off:.1e}"


def shown(number: float) -> str:
    """Three digits, thousands apart."""
    return f"{number:,.0f}" if abs(number) >= 100 else f"{number:.3g}"
