"""What this machine can do at best, with the threads of the run: measured in this process, as a fork has one thread."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

import torch
from torch import Tensor

from gradwright.doctor.session.facts import Fact, MachineLimits, OpsPerLine
from gradwright.doctor.session.model import NotExamined, Report
from gradwright.ground.torch_versions.modes import DisableTorchFunction, len_torch_dispatch_stack

Clock = Callable[[], float]

BUFFER_BYTES = 32 << 20  # two of them: 64 MiB, more than most caches hold
SIDE = {"cpu": 512, "cuda": 4096}  # of a square product: 3.4 MB on a CPU, 0.3 GFLOP
SMALL_OPERATIONS = 200
ROUNDS = 5
ENOUGH_SECONDS = 0.03  # of each of the three

_measured: dict[tuple[frozenset[torch.device], int], MachineLimits] = {}  # by devices and number of threads


def probe_machine(known: Report, subject: str, devices: Iterable[torch.device] = ()
                  ) -> Iterator[Fact | NotExamined]:  # fmt: skip
    """The limits, where there is a call whose distance to them can be told. ``devices``: of its tensors, besides those
    of the specimens that the session knows."""
    if not any(fact.minimum_bytes > 0 for fact in known.of(OpsPerLine)):
        return
    used = {torch.device(tensor.device) for specimen in known.specimens for tensor in specimen.tensors}
    try:
        limits = known_limits(used | set(devices))
    except (RuntimeError, MemoryError) as error:
        why = f"it could not be measured: {type(error).__name__}: {error}".splitlines()[0]
        yield NotExamined("what this machine can do at best", why)
        return
    if limits is not None:
        yield replace(limits, subject=subject)


def known_limits(devices: Iterable[torch.device]) -> MachineLimits | None:
    """``machine_limits``, measured once in a process for each number of threads."""
    key = frozenset(devices), torch.get_num_threads()
    if key not in _measured:
        limits = machine_limits(key[0])
        if limits is None:
            return None
        _measured[key] = limits
    return _measured[key]


def machine_limits(devices: Iterable[torch.device], clock: Clock = time.perf_counter) -> MachineLimits | None:
    """The limits of the one device that is in use; None where these are several, or it is neither CPU nor CUDA, or
    where somebody watches torch's operations, who would be measured too.

    The best of a few rounds each: a copy of 32 MiB into a destination that is there already (from and to torch's own
    allocator, touched before), a product of square float32 matrices into one, many small operations in a row.
    Random state, number of threads, modes and settings stay as they are; the buffers are let go.
    Cost: about 0.15 s and 64 MiB. Raises: RuntimeError or MemoryError if there is no such memory.
    """
    kinds = {(device.type, device.index or 0) for device in devices}
    if len(kinds) != 1 or next(iter(kinds))[0] not in SIDE or len_torch_dispatch_stack():
        return None
    (kind, index), = kinds  # fmt: skip
    device = torch.device(kind, index) if kind == "cuda" else torch.device("cpu")
    best = _Best(device, clock)
    with (
        torch.inference_mode(False),
        torch.no_grad(),
        torch.autocast(kind, enabled=False),
        DisableTorchFunction(),
    ):
        return MachineLimits(
            id="machine",
            subject="",
            bytes_per_second=2 * BUFFER_BYTES / best.of(_pass_over_memory(device)),
            flops_per_second=2 * SIDE[kind] ** 3 / best.of(_product(device, SIDE[kind])),
            operation_seconds=best.of(_small_operations(device)) / SMALL_OPERATIONS,
            threads=torch.get_num_threads(),
            device=kind,
        )


class _Best:
    """The quickest of a few rounds of some work, after one that does not count."""

    def __init__(self, device: torch.device, clock: Clock) -> None:
        self._device, self._clock = device, clock

    def of(self, work: Callable[[], object]) -> float:
        self._seconds(work)
        taken: list[float] = []
        while len(taken) < 2 or (len(taken) < ROUNDS and sum(taken) < ENOUGH_SECONDS):
            taken.append(self._seconds(work))
        return max(min(taken), 1e-9)

    def _seconds(self, work: Callable[[], object]) -> float:
        self._wait()
        started = self._clock()
        work()
        self._wait()
        return self._clock() - started

    def _wait(self) -> None:
        if self._device.type == "cuda":
            torch.cuda.synchronize(self._device)


def _pass_over_memory(device: torch.device) -> Callable[[], Tensor]:
    source = torch.ones(BUFFER_BYTES // 4, dtype=torch.float32, device=device)
    destination = torch.zeros_like(source)
    return lambda: destination.copy_(source)


def _product(device: torch.device, side: int) -> Callable[[], Tensor]:
    left = torch.ones(side, side, dtype=torch.float32, device=device)
    right, result = torch.ones_like(left), torch.zeros_like(left)
    return lambda: torch.mm(left, right, out=result)


def _small_operations(device: torch.device) -> Callable[[], None]:
    number = torch.ones((), dtype=torch.float32, device=device)

    def work() -> None:
        for _ in range(SMALL_OPERATIONS):
            number.neg_()

    return work
