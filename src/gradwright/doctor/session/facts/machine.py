"""Measured: what this machine can do at best."""

from __future__ import annotations

from dataclasses import dataclass

from gradwright.doctor.session.facts.costs import OpsPerLine
from gradwright.doctor.session.facts.fact import Fact


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineLimits(Fact):
    """What nothing here can be faster than, with the threads of this run: bytes read and written a second by a plain
    pass over memory, floating-point operations a second of a large float32 product, and the time of one small
    operation; on ``device``."""

    bytes_per_second: float
    flops_per_second: float
    operation_seconds: float
    threads: int
    device: str = "cpu"

    def floor(self, minimum_bytes: int, flops: int) -> float:
        """Seconds that must go by until so many bytes are moved and so many floating-point operations are done; 0.0
        where nothing is known of what has to be done.

        >>> limits = MachineLimits(id="machine", subject="script", bytes_per_second=1e10, flops_per_second=1e11,
        ...                        operation_seconds=2e-6, threads=1)
        >>> limits.floor(1_000_000, 10_000), limits.floor(8, 10_000_000), limits.floor(8, 1), limits.floor(0, 0)
        (0.0001, 0.0001, 2e-06, 0.0)
        """
        if minimum_bytes <= 0 and flops <= 0:
            return 0.0
        moving = minimum_bytes / self.bytes_per_second if self.bytes_per_second > 0 else 0.0
        computing = flops / self.flops_per_second if self.flops_per_second > 0 else 0.0
        return max(moving, computing, self.operation_seconds)

    def distance(self, costs: OpsPerLine) -> float | None:
        """How many times as long a call takes as it must at least. None: not known, as what has to be moved is not (a
        loop), or is of something smaller than the call whose seconds these are."""
        least = self.floor(costs.minimum_bytes, costs.flops)
        if costs.shrunk or costs.minimum_bytes <= 0 or least <= 0.0 or costs.seconds <= 0.0:
            return None
        return costs.seconds / least
