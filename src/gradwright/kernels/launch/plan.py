"""What a launch would do, for people."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Backend = Literal["numba", "triton", "torch"]
_SHOWN = {"numba": "machine code by LLVM", "triton": "a Triton kernel"}


@dataclass(frozen=True)
class Plan:
    """How a program runs on operands of given dtypes, devices, shapes and strides; ``str(plan)`` tells it.

    ``backend``: "numba" (one pass over memory, LLVM's code on a CPU), "triton" (one pass, on an accelerator), or
    "torch" (one operation after the other: every step goes through memory).  ``why``: why no kernel is used; "" where
    one is.  ``reads``, ``writes``: how each operand and each result is walked through.  ``bytes``: what has to be read
    and written once.  ``threads``: that take part, on a CPU.  ``origin``: where the kernel came from: "compiled" now,
    "disk" or "memory"; ``seconds``: what that took.
    """

    backend: Backend
    why: str = ""
    precision: str = ""
    shape: tuple[int, ...] = ()
    rows: int = 0
    columns: int = 0
    blocks: int = 0
    threads: int = 0
    bytes: int = 0
    reads: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()
    origin: str = ""
    seconds: float = 0.0

    @property
    def is_fallback(self) -> bool:
        """Is it plain torch, where a kernel was wanted?"""
        return self.backend == "torch"

    def __str__(self) -> str:
        if self.backend == "torch":
            return f"plain torch, one operation after the other, because {self.why}"
        walk = f"{self.rows:,} x {self.columns:,}" if self.rows > 1 else f"{self.columns:,}"
        lines = [
            f"{_SHOWN[self.backend]}, in {self.precision}: {walk} elements in {_counted(self.blocks, 'block')}, "
            + (f"{_counted(self.threads, 'thread')}, " if self.threads else "")
            + f"{self.bytes / 2**20:.3g} MiB read and written once",
            *[f"  reads   {text}" for text in self.reads],
            *[f"  writes  {text}" for text in self.writes],
        ]
        if self.origin:
            lines.append(f"  kernel  from {self.origin}, {1e3 * self.seconds:.3g} ms")
        return "\n".join(lines)


def _counted(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"
