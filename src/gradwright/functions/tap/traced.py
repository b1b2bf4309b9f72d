"""Taps in compiled code: it runs without them, so that only its tracing tells that they are there."""

from __future__ import annotations

# Names of taps that Dynamo met, in this process.
TRACED: set[str] = set()


def trace(name: str) -> bool:
    TRACED.add(name)
    return True


# What `torch.compiler.assume_constant_result` sets: Dynamo calls `trace` while it traces, and puts nothing into the
# graph. The decorator itself would import Dynamo, two seconds for everybody who never compiles.
trace._dynamo_marked_constant = True  # type: ignore[attr-defined]
