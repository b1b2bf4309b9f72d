"""The most memory that a call takes at a time, by torch's profiler of today, beside the one that the meter uses."""

from __future__ import annotations

import warnings
from collections.abc import Callable

import torch


def peak_of(call: Callable[[], object]) -> int:
    """Bytes allocated on the CPU at most while ``call`` runs."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with torch.autograd.profiler.profile(profile_memory=True) as profiler:
            kept = call()
    assert profiler.kineto_results is not None
    events = [event for event in profiler.kineto_results.events() if event.name() == "[memory]"]
    alive = peak = 0
    for event in sorted(events, key=lambda event: event.start_ns()):
        alive += event.nbytes()
        peak = max(peak, alive)
    del kept
    return peak
