"""How long the changed phase takes, before and after, on the largest inputs that the time allows."""

from __future__ import annotations

import contextlib
import io
import statistics
import time
import warnings
from dataclasses import dataclass
from typing import Any

import torch

from gradwright.checking.chance import reproducible
from gradwright.doctor.prove.specimens import Args, cut, describe, lengths, same_length, tensors
from gradwright.doctor.prove.trial import own_copy

STARTING_LENGTH = 12
SHARE_OF_TIME_LEFT = 0.2
ENOUGH_SECONDS = 0.2


@dataclass(frozen=True)
class Seconds:
    forward: float
    backward: float

    def of(self, phase: str) -> float:
        return {"forward": self.forward, "backward": self.backward}.get(phase, self.forward + self.backward)


@dataclass(frozen=True)
class Timing:
    before: float
    after: float
    on: str


def compare_speed(
    original: Any,
    candidate: Any,
    args: Args,
    wanted: tuple[bool, ...],
    *,
    phase: str,
    seconds: float | None,
    deadline: float,
) -> Timing | None:
    """Seconds of ``phase`` ("forward", "backward", else both). None if a call raises or the time is up.

    ``seconds``: how long the original's phase took in the run, on ``args`` as they are; then only the candidate is
    timed on them, if what it still has to do besides allows that.
    """
    best: Timing | None = None
    work = 0
    spent = 0.0
    longest = STARTING_LENGTH
    beside = 0.0
    while time.monotonic() < deadline:
        small = cut(args, same_length, lengths(args, same_length, longest))
        size = sum(tensor.numel() for tensor in tensors(small))
        budget = SHARE_OF_TIME_LEFT * (deadline - time.monotonic())
        whole = all(a.shape == b.shape for a, b in zip(tensors(small), tensors(args), strict=True))
        if work and spent * size / work > budget:
            break
        before = measure(original, small, wanted, phase)
        after = measure(candidate, small, wanted, phase)
        if before is None or after is None:
            return best
        work, spent = max(size, 1), before.forward + before.backward + after.forward + after.backward
        beside = after.forward + after.backward - after.of(phase)
        best = Timing(before.of(phase), after.of(phase), describe(small))
        if whole:
            return best
        longest *= 2
    full = sum(tensor.numel() for tensor in tensors(args))
    left = deadline - time.monotonic()
    if seconds is not None and work and 2 * beside * full / work < 0.5 * left:
        after = measure(candidate, args, wanted, phase)
        return Timing(seconds, after.of(phase), describe(args)) if after else best
    return best


def measure(function: Any, args: Args, wanted: tuple[bool, ...], phase: str) -> Seconds | None:
    """Median seconds; one run where that takes long, and no backward for "forward". None if it raises."""
    forward: list[float] = []
    backward: list[float] = []
    quiet = io.StringIO()
    with reproducible(0), warnings.catch_warnings(), contextlib.redirect_stdout(quiet), torch.enable_grad():
        warnings.simplefilter("ignore")
        started = time.perf_counter()
        try:
            while len(forward) < 5 and (not forward or time.perf_counter() - started < ENOUGH_SECONDS):
                seconds = _once(function, args, wanted, phase)
                forward.append(seconds.forward)
                backward.append(seconds.backward)
        except Exception:  # it is someone else's code
            return None
    return Seconds(statistics.median(forward), statistics.median(backward))


def _once(function: Any, args: Args, wanted: tuple[bool, ...], phase: str) -> Seconds:
    mine = [own_copy(value, False) for value in args]
    leaves = [
        value.requires_grad_() for value, want in zip(mine, wanted, strict=True) if want and torch.is_tensor(value)
    ]
    start = time.perf_counter()
    returned = function.apply(*mine)
    middle = time.perf_counter()
    outputs = returned if isinstance(returned, tuple) else (returned,)
    roots = [value for value in outputs if torch.is_tensor(value) and value.requires_grad]
    if phase == "forward" or not leaves or not roots:
        return Seconds(middle - start, 0.0)
    cotangents = [torch.ones_like(root) for root in roots]
    before = time.perf_counter()
    torch.autograd.grad(roots, leaves, cotangents, allow_unused=True)
    return Seconds(middle - start, time.perf_counter() - before)
