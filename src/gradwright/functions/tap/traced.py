"""Taps in compiled code: it runs without them, so that only its tracing tells that they are there."""

from __future__ import annotations

from gradwright.ground.torch_versions.dynamo import constant_in_traces

# Names of taps that Dynamo met, in this process.
TRACED: set[str] = set()


# Dynamo calls it while it traces, and puts nothing into the graph.
@constant_in_traces
def trace(name: str) -> bool:
    TRACED.add(name)
    return True
