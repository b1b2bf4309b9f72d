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

from gradwright.errors import RankLost

_ROLL_CALL_SECONDS = 3.0
_OF_THE_WIRE = (
    "connection closed", "connection reset", "connection refused", "broken pipe", "timed out", "timeout", "gloo",
    "nccl", "socket", "store", "process group", "processgroup", "peer",
)  # fmt: skip


class Ranks:
    """The ranks that share an update; one rank by itself has nobody to ask.

    ``device``: where the numbers lie that are sent (an NCCL group takes no CPU tensors).
    """

    def __init__(self, group: Any = None, *, alone: bool = False, seconds: float = 600.0) -> None:
        self.group = group
        self.alone = alone
        self.count: int = 1 if alone else dist.get_world_size(group)
        self.rank: int = 0 if alone else dist.get_rank(group)
        self.seconds = seconds
        self.window = 0
        self._calls = 0

    def gather(self, numbers: Sequence[float], doing: str) -> list[list[float]]:
        """The numbers of every rank, by rank. Raises: RankLost. Cost: one all_gather of a few numbers, waited for."""
        if self.alone or self.count == 1:
            return [list(numbers)]
        sent = torch.tensor(numbers, dtype=torch.float64, device=self._device())
        received = [torch.empty_like(sent) for _ in range(self.count)]
        with self.naming(doing):
            work = dist.all_gather(received, sent, group=self.group, async_op=True)
            assert work is not None
            work.wait(timedelta(seconds=self.seconds))
            return [one.tolist() for one in received]

    def sum_(self, tensors: Sequence[Tensor], doing: str) -> None:
        """All-reduce them in place, in one message for each dtype and device. Raises: RankLost."""
        if self.alone or self.count == 1:
            return
        kinds: dict[tuple[torch.dtype, torch.device], list[Tensor]] = {}
        for tensor in tensors:
            kinds.setdefault((tensor.dtype, tensor.device), []).append(tensor)
        for same in kinds.values():
            flat = torch.cat([tensor.reshape(-1) for tensor in same])
            with self.naming(doing):
                work = dist.all_reduce(flat, group=self.group, async_op=True)
                assert work is not None
                work.wait(timedelta(seconds=self.seconds))
            for tensor, part in zip(same, torch.split(flat, [tensor.numel() for tensor in same]), strict=True):
                tensor.copy_(part.view_as(tensor))

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
        missing = self._missing()
        who = _ranks(missing) if missing else "a rank"
        return (
            f"rank {self.rank}, window {self.window}: {who} did not answer while {doing} ({_first_line(error)}). No "
            "step was made of this window. Look at that rank's own log for what ended or stopped it; start again from "
            "the last checkpoint (GradientAccumulator.state_dict)"
        )

    def _missing(self) -> tuple[int, ...] | None:
        """Who does not answer a roll call by the store; None where there is no store that can be asked."""
        try:
            store = dist.distributed_c10d._get_default_store()
            call = f"gradwright/{self.window}"
            store.set(f"{call}/{self.rank}", "here")
            until = time.monotonic() + _ROLL_CALL_SECONDS
            names = [f"{call}/{rank}" for rank in range(self.count)]
            while time.monotonic() < until and not store.check(names):
                time.sleep(0.1)
            return tuple(rank for rank, name in enumerate(names) if not store.check([name]))
        except Exception:  # the store went with the rank that kept it
            return None

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
