"""Which of several ranks this process is, as torchrun, mpirun or SLURM say it in the environment."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass

_OF_THE_RUN = ("TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT", "MASTER_ADDR", "MASTER_PORT", "GROUP_RANK")


@dataclass(frozen=True)
class Rank:
    """``local_rank`` is its number on this machine. ``run``: the same for all ranks of one attempt on one machine."""

    rank: int
    world_size: int
    local_rank: int
    local_world_size: int
    node: int
    run: str

    @property
    def leads(self) -> bool:
        """It collects the sessions of this machine's ranks."""
        return self.local_rank == 0

    @property
    def alone_on_one_machine(self) -> bool:
        """All ranks are on this machine, as far as the environment says."""
        return self.local_world_size == self.world_size

    @property
    def here(self) -> range:
        """The ranks that are on this machine."""
        first = self.rank - self.local_rank
        return range(first, first + self.local_world_size)


def this_rank(environment: Mapping[str, str]) -> Rank | None:
    """``None``: not one of several. ``RANK``, ``WORLD_SIZE`` and ``MASTER_PORT`` are what a script needs as well.

    >>> this_rank({"RANK": "1", "WORLD_SIZE": "2", "MASTER_PORT": "29500"}).here
    range(0, 2)
    >>> this_rank({"RANK": "0", "WORLD_SIZE": "1", "MASTER_PORT": "29500"}) is None
    True
    """
    rank, world_size = _number(environment, "RANK"), _number(environment, "WORLD_SIZE")
    if rank is None or world_size is None or not 0 <= rank < world_size or world_size < 2:
        return None
    if not environment.get("MASTER_PORT"):
        return None
    local_rank = _number(environment, "LOCAL_RANK")
    local_rank = rank if local_rank is None or local_rank > rank else local_rank
    local_world_size = _number(environment, "LOCAL_WORLD_SIZE")
    if local_world_size is None or local_world_size <= local_rank:
        local_world_size = world_size if local_rank == rank else local_rank + 1
    words = "\0".join(environment.get(name, "") for name in _OF_THE_RUN)
    return Rank(
        rank=rank,
        world_size=world_size,
        local_rank=local_rank,
        local_world_size=min(local_world_size, world_size - (rank - local_rank)),
        node=_number(environment, "GROUP_RANK") or 0,
        run=hashlib.sha256(words.encode("utf-8", "surrogateescape")).hexdigest()[:16],
    )


def _number(environment: Mapping[str, str], name: str) -> int | None:
    text = environment.get(name, "").strip()
    return int(text) if text.isascii() and text.isdigit() else None
