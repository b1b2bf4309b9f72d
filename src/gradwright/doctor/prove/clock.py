"""One call on the clock: its seconds, forward and backward; and one that is counted: its bytes and operations."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

from gradwright.doctor.prove.copies import arguments
from gradwright.doctor.prove.counting import MOST_OPERATIONS, TooManyOperationsError, Work
from gradwright.doctor.prove.memory import PeakBytes
from gradwright.doctor.prove.specimens import Args
from gradwright.doctor.prove.trees import named_leaves, tensors
from gradwright.doctor.prove.trial import Subject, undisturbed
from gradwright.ground import clock
from gradwright.ground.clock import Stopwatch

ENOUGH_SECONDS = 0.1
MOST_ROUNDS = 15


@dataclass(frozen=True)
class Seconds:
    forward: float
    backward: float

    @property
    def all(self) -> float:
        return self.forward + self.backward

    def of(self, phase: str) -> float:
        return {"forward": self.forward, "backward": self.backward}.get(phase, self.forward + self.backward)


@dataclass(frozen=True)
class Setting:
    """What is timed and how: ``phase`` is "forward", "backward" or "" for both.

    ``prepared``: the candidate, whose other phase leaves most of its work out: only to be timed. ``counted``: whether
    bytes can be counted: an elementwise kernel that is watched runs as torch's operations.
    """

    original: Subject
    candidate: Subject
    names: Callable[[Args], Sequence[str]]
    wanted: frozenset[str]
    phase: str = ""
    grad: bool = True
    prepared: Subject | None = None
    counted: bool = True


def measure(
    setting: Setting, subjects: Sequence[Subject], args: Args, enough: float = ENOUGH_SECONDS
) -> list[list[Seconds]] | None:
    """Each subject's seconds in rounds in which all have their turn; one round where that takes ``enough`` seconds.

    None if one raises.
    """
    taken: list[list[Seconds]] = [[] for _ in subjects]
    started = clock.now()
    while len(taken[0]) < MOST_ROUNDS and (not taken[0] or clock.now() - started < enough):
        for subject, mine in zip(subjects, taken, strict=True):
            one = once(setting, subject, args)
            if one is None:
                return None
            mine.append(one)
    return taken


def pick_fastest(rounds: Sequence[Seconds]) -> Seconds:
    """The least of each phase by itself: what else the machine does (its memory is shared, too) adds, never takes."""
    return Seconds(min(one.forward for one in rounds), min(one.backward for one in rounds))


def once(setting: Setting, subject: Subject, args: Args, counter: PeakBytes | None = None) -> Seconds | None:
    """The seconds of one call on copies of the arguments. None if it raises, or is too long to count."""
    names = setting.names(args)
    with undisturbed(setting.grad):
        for inner in (False, True):
            mine, leaves = arguments(args, names, setting.wanted if setting.grad else (), inner=inner)
            try:
                if counter is None:
                    return _timed(setting, subject, mine, leaves)
                counter.begin()
                counter.known(*tensors(mine))
                with counter:
                    return _timed(setting, subject, mine, leaves, counter)
            except TooManyOperationsError:
                return None
            except Exception:  # it is someone else's code
                if not leaves:
                    return None
    return None


def _timed(
    setting: Setting, subject: Subject, args: Args, leaves: dict[str, torch.Tensor], counter: PeakBytes | None = None
) -> Seconds:
    if counter is not None:
        counter.counts = setting.phase != "backward"
    watch = Stopwatch()
    returned = subject(*args)
    forward = watch.seconds()
    if counter is not None:
        counter.counts = False
    if setting.phase == "forward" or not leaves:
        return Seconds(forward, 0.0)
    outputs = [value for _, value in named_leaves(list(returned), list(returned.values()))]
    roots = [value for value in (*outputs, *tensors(args)) if isinstance(value, torch.Tensor) and value.grad_fn]
    if not roots:
        return Seconds(forward, 0.0)
    cotangents = [torch.ones_like(root) for root in roots]
    if counter is not None:
        counter.counts = True
    watch = Stopwatch()
    torch.autograd.grad(roots, list(leaves.values()), cotangents, allow_unused=True)
    return Seconds(forward, watch.seconds())


@dataclass(frozen=True)
class Counted:
    """Of one call: ``peak_bytes``, the most that it has at once; of the phase that is timed: the ``operations`` that it
    dispatches, and the bytes that these read and write (``moved_bytes``); None where that is not known."""

    peak_bytes: int
    operations: int | None
    moved_bytes: int | None

    @property
    def work(self) -> Work | None:
        return None if self.operations is None or self.moved_bytes is None else (self.operations, self.moved_bytes)


def counted(setting: Setting, subject: Subject, args: Args, most_operations: int = MOST_OPERATIONS) -> Counted | None:
    """What one call comes to. None if it raises, or is of too many operations to count."""
    if not setting.counted:
        return None
    counter = PeakBytes(most_operations)
    if once(setting, subject, args, counter) is None:
        return None
    return Counted(counter.peak, counter.operations, counter.moved)
