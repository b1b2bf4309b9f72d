"""What the ranks tell one another, once or twice a window: a few numbers each, within a time limit.

A rank that does not answer is named: the others leave their names in the process group's store and look who is missing.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Sequence
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from gradwright.errors import AccumulationError, RankLost
from gradwright.ground.torch_versions.distributed import default_store

_ROLL_CALL_SECONDS = 3.0
_PATIENCE_SECONDS = 1.0  # between two looks whether a roll is called
_OF_THE_WIRE = (
    "connection closed", "connection reset", "connection refused", "broken pipe", "timed out", "timeout", "gloo",
    "nccl", "socket", "store", "process group", "processgroup", "peer",
)  # fmt: skip


class Ranks:
    """The ranks that share an update; one rank by itself has nobody to ask.

    ``rank``: this one's place in the group; ``name``, ``names``: what it, and each of them, is called among all ranks.
    """

    def __init__(self, group: Any = None, *, alone: bool = False, seconds: float = 600.0) -> None:
        self.group = group
        self.alone = alone
        self.count: int = 1 if alone else dist.get_world_size(group)
        self.rank: int = 0 if alone else dist.get_rank(group)
        self.names: list[int] = [0] if alone else dist.get_process_group_ranks(group)
        self.name = self.names[self.rank]
        self.seconds = seconds
        self.window = 0
        self._came = time.monotonic()  # to the last wait

    def gather(self, numbers: Sequence[float], doing: str) -> list[list[float]]:
        """The numbers of every rank, by rank. Raises: RankLost. Cost: one all_gather of a few numbers, waited for."""
        if self.alone or self.count == 1:
            return [list(numbers)]
        sent = torch.tensor(numbers, dtype=torch.float64, device=self._device())
        received = [torch.empty_like(sent) for _ in range(self.count)]
        with self.naming(doing):
            work = dist.all_gather(received, sent, group=self.group, async_op=True)
            self._wait(work)
            return [one.tolist() for one in received]

    def meet(self, left: int, doing: str) -> None:
        """Wait for one another before the engine does, whose own wait has no limit of ours.

        ``left``: micro-batches to come, with this one; it has to be the same everywhere. Where the engine's numbers lie
        on an accelerator nobody waits: the host would stand still for the device, and the process group's own
        watchdog holds. Cost: one all_gather of two numbers, about 0.1 ms by gloo on one machine.
        Raises: RankLost; AccumulationError, where the ranks stand at different places.
        """
        if self.alone or self.count == 1 or self._device().type != "cpu":
            return
        rows = self.gather([self.window, left], doing)
        if any(row != rows[self.rank] for row in rows):
            at = ", ".join(
                f"rank {name}: window {int(row[0])}, {int(row[1])} to come"
                for name, row in zip(self.names[:4], rows, strict=False)
            )
            raise AccumulationError(
                f"rank {self.name}, window {self.window}: the ranks are not in the same micro-batch ({at}), so their "
                "gradients can't be put together. Did one of them leave the loop, or swallow an exception?"
            )

    def sum_(self, tensors: Sequence[Tensor], doing: str) -> None:
        """All-reduce them in place, in one message for each dtype and device. Raises: RankLost."""
        if self.alone or self.count == 1:
            return
        kinds: dict[tuple[torch.dtype, torch.device], list[Tensor]] = {}
        for tensor in tensors:
            kinds.setdefault((tensor.dtype, tensor.device), []).append(tensor)
        for same in kinds.values():
            flat = torch.cat([tensor.reshape(-1) for tensor in same])
            flat = flat.to(self._device()) if flat.device.type == "cpu" else flat
            with self.naming(doing):
                work = dist.all_reduce(flat, group=self.group, async_op=True)
                self._wait(work)
            for tensor, part in zip(same, torch.split(flat, [tensor.numel() for tensor in same]), strict=True):
                tensor.copy_(part.view_as(tensor))

    def _wait(self, work: Any) -> None:
        """Within the time limit. Who waits answers a roll call meanwhile: a lost rank is noticed by its neighbours in
        the ring first. (A wait of NCCL ends its communicator when its time is over, so that is one wait.)"""
        self._came = time.monotonic()
        until = self._came + self.seconds
        if self._device().type != "cpu":
            work.wait(timedelta(seconds=self.seconds))
            return
        while True:
            left = until - time.monotonic()
            try:
                work.wait(timedelta(seconds=max(0.001, min(left, _PATIENCE_SECONDS))))
                return
            except RuntimeError:
                if work.is_completed():  # since that wait was over; or it failed, which is raised once more
                    work.wait()
                    return
                if left <= _PATIENCE_SECONDS or self._is_called():
                    raise

    @contextlib.contextmanager
    def naming(self, doing: str) -> Iterator[None]:
        """An error of the wire in it is raised with the rank that was lost, and the window."""
        try:
            yield
        except RankLost:
            raise
        except RuntimeError as error:
            if self.alone or not _of_the_wire(error):
                raise
            raise RankLost(self._told(doing, error)) from error

    def _told(self, doing: str, error: RuntimeError) -> str:
        lost = self._lost()
        who = _ranks(lost) if lost else "a rank"
        if lost is None:
            who += " (and the store by which it could be named: rank 0 keeps it, where torchrun does not)"
        return (
            f"rank {self.name}, window {self.window}: {who} did not answer in time while {doing} "
            f"({_first_line(error)}). No step was made of this window. Look at that rank's own log for what ended or "
            "stopped it; start again from the last checkpoint (GradientAccumulator.state_dict)"
        )

    def _lost(self) -> tuple[int, ...] | None:
        """Who does not answer a roll call by the store, or came later than the time limit; None where there is no store
        that can be asked. Each answers with the seconds that it has waited."""
        try:
            store, call = default_store(), self._call()
            store.set(call, "called")
            store.set(f"{call}/{self.name}", str(time.monotonic() - self._came))
            until = time.monotonic() + _ROLL_CALL_SECONDS
            keys = [f"{call}/{name}" for name in self.names]
            while time.monotonic() < until and not store.check(keys):
                time.sleep(0.1)
            missing = tuple(name for name, key in zip(self.names, keys, strict=True) if not store.check([key]))
            if missing:
                return missing
            since = time.monotonic() - self._came - self.seconds  # who came after that was late
            return tuple(name for name, key in zip(self.names, keys, strict=True) if float(store.get(key)) < since)
        except Exception:  # the store went with the rank that kept it
            return None

    def _call(self) -> str:
        return f"gradwright/{self.names[0]}-{self.names[-1]}-{self.count}/{self.window}"

    def _is_called(self) -> bool:
        try:
            called: bool = default_store().check([self._call()])
        except Exception:  # the store went with the rank that kept it
            return True
        return called

    def _device(self) -> torch.device:
        backend = dist.get_backend(self.group)
        return torch.device("cuda", torch.cuda.current_device()) if backend == "nccl" else torch.device("cpu")


def _of_the_wire(error: RuntimeError) -> bool:
    if isinstance(error, dist.DistError):
        return True
    text = str(error).lower()
    return any(word in text for word in _OF_THE_WIRE)


def _ranks(ranks: Sequence[int]) -> str:
    return f"rank {ranks[0]}" if len(ranks) == 1 else "ranks " + ", ".join(str(rank) for rank in ranks)


def _first_line(error: BaseException) -> str:
    line = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
    return line if len(line) <= 160 else line[:157] + "..."
