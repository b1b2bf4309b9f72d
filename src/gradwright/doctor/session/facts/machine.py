"""Measured: what this machine can do at best."""

from __future__ import annotations

from dataclasses import dataclass

from gradwright.doctor.session.facts.fact import Fact


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineLimits(Fact):
    """What nothing here can be faster than, with the threads of this run: bytes read and written a second by a plain
    pass over memory, floating-point operations a second of a large product, and the time of one small operation."""

    bytes_per_second: float
    flops_per_second: float
    operation_seconds: float
    threads: int
