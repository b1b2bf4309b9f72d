"""Several ways to compute the same, checked against float64 and timed in turn.

Each way is tried by itself: one that raises an error or is wrong gets no time, a note says why, and the others stand.
"""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from losses_at_work.measuring import error_of
from on_device import now, peak_bytes
from torch import Tensor

from on_gpu.figure import Machine, OursFailed

ENOUGH_SECONDS = 0.004  # of one turn: above what waiting for the device takes
MOST_CALLS = 200  # of one turn
SLOW_SECONDS = 0.5  # a way that takes longer has one turn only, before the rounds
POISONED = 3  # blocks of memory, of the size of each result, that are filled with NaN before a way is checked
NOT_IN_A_DRY_RUN = "not in a dry run"


class Wrong(Exception):
    """A way returned something else than the truth."""


@dataclass(frozen=True)
class Way:
    """``call``: returns what is checked, a tensor or several. ``prepare``: runs before each call, untimed."""

    call: Callable[[], Any]
    prepare: Callable[[], object] | None = None


@dataclass
class Comparison:
    """What was found of each way, by its name; a way without a time has a note."""

    #: The way that the others are compared with.
    ours: str
    #: Medians over the rounds, of one call.
    seconds: dict[str, float] = field(default_factory=dict)
    #: The slowest round by the fastest.
    spread: dict[str, float] = field(default_factory=dict)
    #: Medians of the rounds' ratios: the way's time as a multiple of ours.
    of_ours: dict[str, float] = field(default_factory=dict)
    #: The largest error, relative to the largest element of the truth.
    errors: dict[str, float] = field(default_factory=dict)
    #: Of the first call: torch.compile's and Triton's compilers within.
    first_seconds: dict[str, float] = field(default_factory=dict)
    #: Of tensors that a call held at once, results included.
    peak_bytes: dict[str, int] = field(default_factory=dict)
    #: Why a way has no time.
    notes: dict[str, str] = field(default_factory=dict)

    def ratio(self, name: str) -> str:
        """A cell: the way's time as a multiple of ours; "wrong", or "-" where there is none."""
        if name in self.of_ours:
            return f"{self.of_ours[name]:.2f}"
        return "wrong" if self.notes.get(name, "").startswith("wrong") else "-"

    def spread_of_ours(self) -> float | str:
        """A cell: the slowest round by the fastest. A difference between ways that is smaller is noise."""
        return round(self.spread[self.ours], 2) if self.ours in self.spread else "-"

    def mebibytes(self, name: str) -> float | str:
        return round(self.peak_bytes[name] / 2**20, 1) if name in self.peak_bytes else "-"

    def note(self) -> str:
        """One cell with all notes."""
        return "; ".join(f"{name}: {text}" for name, text in self.notes.items())

    def finish(self, cells: dict[str, Any]) -> dict[str, Any]:
        """The cells with the notes as their last column. Raises OursFailed, with them, where ours has no time."""
        if self.ours not in self.seconds:
            why = self.notes.get(self.ours, "not measured")
            others = {name: f"{1e6 * took:.4g} us" for name, took in self.seconds.items()}
            raise OursFailed(f"{self.ours}: {why}", {**cells, "notes": f"{self.note()}; times of the others: {others}"})
        return {**cells, "notes": self.note()}


def compare(
    ways: Mapping[str, Way],
    machine: Machine,
    *,
    ours: str = "ours",
    truth: Sequence[Tensor] = (),
    tolerance: float = 0.0,
    unchecked: Collection[str] = (),
) -> Comparison:
    """Check each way against ``truth``, then time all of them in rounds; the first round isn't counted.

    ``truth``: what each way returns, in float64; none: the ways check themselves. ``unchecked``: names of ways that
    compute something else, a floor.
    """
    found = Comparison(ours)
    once: dict[str, float] = {}
    for name, way in ways.items():
        try:
            once[name] = _try(name, way, found, machine, () if name in unchecked else truth, tolerance)
        except Wrong as error:
            found.notes[name] = f"wrong: {error}"
        except Exception as error:  # of any kind: torch.compile's, a library's, out of memory
            found.notes[name] = describe_error(error)
        _free_memory(machine.device)
    _time_in_rounds({name: ways[name] for name in once}, once, found, machine)
    return found


def _try(name: str, way: Way, found: Comparison, machine: Machine, truth: Sequence[Tensor], tolerance: float) -> float:
    """Seconds of a call that isn't the first. Raises Wrong, and whatever the way raises."""
    _poison_memory(truth, machine.device)
    start = time.perf_counter()
    result = _call(way)
    _wait(machine.device)
    found.first_seconds[name] = time.perf_counter() - start
    if truth:
        tensors = [result] if isinstance(result, Tensor) else list(result)
        error = found.errors[name] = error_of(tensors, list(truth))
        if not error < tolerance:  # NaN included
            raise Wrong(f"off by {error:.1e} of the largest element")
        del tensors
    del result
    if way.prepare is not None:
        way.prepare()
    found.peak_bytes[name] = peak_bytes(way.call, machine.device)
    return _time_turn(way, 1, machine.device)


def _call(way: Way) -> Any:
    if way.prepare is not None:
        way.prepare()
    return way.call()


def _poison_memory(truth: Sequence[Tensor], device: torch.device) -> None:
    """Leave NaN in the memory that results will get, so that what is not written is not right by chance."""
    if device.type == "cuda":
        made = [torch.full(t.shape, float("nan"), device=device) for t in truth for _ in range(POISONED)]
        del made


def _time_in_rounds(ways: Mapping[str, Way], once: Mapping[str, float], found: Comparison, machine: Machine) -> None:
    """``once``: seconds of a call of each way, as far as they are known."""
    times = {name: [took] if took > SLOW_SECONDS else [] for name, took in once.items()}
    for turn in range(machine.rounds + 1):
        for name, way in ways.items():
            if name in found.notes or once[name] > SLOW_SECONDS:
                continue
            count = max(1, min(MOST_CALLS, int(ENOUGH_SECONDS / max(once[name], 1e-9))))
            try:
                took = _time_turn(way, count, machine.device)
            except Exception as error:  # as above: memory may run out only now
                found.notes[name] = describe_error(error)
                continue
            if turn:
                times[name].append(took)
    times = {name: taken for name, taken in times.items() if taken and name not in found.notes}
    found.seconds = {name: statistics.median(taken) for name, taken in times.items()}
    found.spread = {name: max(taken) / min(taken) for name, taken in times.items()}
    if found.ours in times:
        found.of_ours = {
            name: statistics.median(a / b for a, b in zip(taken, times[found.ours], strict=False))
            for name, taken in times.items()
        }


def _time_turn(way: Way, count: int, device: torch.device) -> float:
    """Seconds of one call, over ``count`` calls one after the other. What a call makes is let go at once."""
    if way.prepare is None:
        start = now(device)
        for _ in range(count):
            way.call()
        return (now(device) - start) / count
    took = 0.0
    for _ in range(count):
        way.prepare()
        start = now(device)
        way.call()
        took += now(device) - start
    return took / count


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def _free_memory(device: torch.device) -> None:
    """Give back what nobody holds, so that one way finds as much memory as another."""
    gc.collect()
    if device.type == "cuda":
        torch.cuda.empty_cache()


def describe_error(error: BaseException) -> str:
    """Its kind and its first line."""
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0][:200] if lines else ''}"
