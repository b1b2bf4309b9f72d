"""One trial, within its limits, where nothing that it does can hurt."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import torch

from gradwright.ground.forked import CAN_FORK, Outcome, in_child

T = TypeVar("T")


@dataclass(frozen=True)
class Limits:
    """Of one trial: seconds, and bytes of memory beyond the script's own."""

    seconds: float = 6.0
    memory_bytes: int = 4 << 30


def attempt(work: Callable[[], T], limits: Limits) -> Outcome[T]:
    """In a forked child where there is fork and no CUDA context; in this process, within no limit, otherwise."""
    if CAN_FORK and not torch.cuda.is_initialized():  # type: ignore[no-untyped-call]  # torch's own
        return in_child(work, seconds=limits.seconds, memory_bytes=limits.memory_bytes)
    try:
        return Outcome("returned", work())
    except Exception as error:
        return Outcome("raised", why=f"{type(error).__name__}: {error}")
