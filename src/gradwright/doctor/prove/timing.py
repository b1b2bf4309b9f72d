"""How long a call takes and how many bytes it needs, before and after, on the largest inputs that the time allows."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

from gradwright.doctor.prove.clock import Counted, Seconds, Setting, counted, measure, once, pick_fastest
from gradwright.doctor.prove.counting import MOST_OPERATIONS, Work
from gradwright.doctor.prove.specimens import Args, cuts, describe, longest_axis
from gradwright.doctor.prove.trees import tensors
from gradwright.doctor.prove.trial import Subject
from gradwright.ground import clock

SHARE_OF_TIME_LEFT = 0.15
MOST_SECONDS = 0.4  # on one size
SECONDS_WHERE_KNOWN = 0.1  # if the run has timed the original already
MOST_SECONDS_OF_A_CALL = 2.0
FASTER = 1.1
SLIGHTLY_FASTER = 1.02  # enough if it needs fewer bytes too
CLEARLY_FASTER = 1.2  # enough if it does no less by count, but for calls of Python: less may be the machine's doing
SMALLER = 0.9
NO_SLOWER = 0.95
FEW_OPERATIONS = 2_000  # counting takes several times as long as the call
SURE_SECONDS = 0.5  # before saying "no faster"
AS_FAST = 2.0  # a phase that takes no more and no less than this many times as long, and a little, does the same work
A_LITTLE = 1e-4


@dataclass(frozen=True)
class Timing:
    """Seconds on inputs ``on``, bytes on inputs ``bytes_on``.

    ``before_counted``, ``after_counted``: what was counted on inputs ``on``, of each; None where nothing was.
    """

    before: float
    after: float
    on: str
    before_bytes: int | None = None
    after_bytes: int | None = None
    bytes_on: str = ""
    before_counted: Counted | None = None
    after_counted: Counted | None = None

    @property
    def ratio(self) -> float:
        """How many times as fast."""
        return self.before / max(self.after, 1e-9)

    def no_gain(self) -> str:
        """Why it is not worth changing anything: the figures; "" if it is faster or smaller."""
        before, after = self.before_bytes or 0, self.before_bytes or 0 if self.after_bytes is None else self.after_bytes
        counted = self.before_counted, self.after_counted
        needed = needed_ratio(*(one.work if one else None for one in counted))
        if after < before:
            needed = NO_SLOWER if after <= SMALLER * before else SLIGHTLY_FASTER
        if self.ratio >= needed:
            return ""
        told = f"{self.on}: it is no faster: {self.after:.3g} s, before {self.before:.3g} s"
        if self.before_bytes is not None and self.after_bytes is not None:
            told += f"; {self.after_bytes} bytes, before {self.before_bytes}"
        return told


def needed_ratio(before: Work | None, after: Work | None) -> float:
    """How many times as fast a change has to be measured, by what it does before and after; None: not known."""
    more = before and after and all(new >= old for old, new in zip(before, after, strict=True))
    return CLEARLY_FASTER if more else FASTER


def compare_speed(
    setting: Setting, args: Args, *, seconds: float | None, deadline: float, needed: float = 0.0
) -> Timing | None:
    """Seconds of the phase, the fastest of interleaved calls. None if a call raises or the time is up.

    ``seconds``: how long the original's phase took in the run, on ``args`` as they are; then only the candidate is
    timed on them, if what it still has to do besides allows that. ``needed``: the ratio that a candidate has to reach;
    what falls short is timed again, as a few rounds tell what else the machine was doing.
    """
    best: Timing | None = None
    sizes: list[Args] = []
    longest, full = longest_axis(args), _elements(args, None)
    whole_length = max((size for tensor in tensors(args) for size in tensor.shape), default=1)
    most = SECONDS_WHERE_KNOWN if seconds is not None else MOST_SECONDS
    is_whole = False
    while not is_whole and clock.now() < deadline:
        measured = _measured(setting, args, longest)
        if measured is None and best is None and longest < whole_length:
            longest *= 2  # sizes that hang together in a way that no cut keeps
            continue
        if measured is None:
            break
        small, found = measured
        is_whole = describe(small) == describe(args)
        best = _compare_fastest(setting, found, small)
        if best.ratio < needed and is_whole:
            left = min(SURE_SECONDS, SHARE_OF_TIME_LEFT * (deadline - clock.now()))
            again = measure(setting, (setting.original, setting.candidate), small, left)
            found = [[*one, *more] for one, more in zip(found, again or ([], []), strict=True)]
            best = _compare_fastest(setting, found, small)
        sizes.append(small)
        per_element = sum(pick_fastest(rounds).all for rounds in found) / max(1, _elements(small, None))
        allowed = min(most, SHARE_OF_TIME_LEFT * (deadline - clock.now()))
        reach = [
            one for one in (longest * 2, longest * 4, longest * 16) if per_element * _elements(args, one) < allowed
        ]
        if not reach:
            break
        longest = reach[-1] if per_element * full > allowed else whole_length
    if best is None:
        return None
    best = _with_bytes(setting, best, sizes)
    whole = _alone(setting, args, full, deadline) if seconds is not None and not is_whole else None
    if seconds is None or whole is None:
        return best
    peaks = best.before_bytes, best.after_bytes, best.bytes_on
    beside_run = Timing(seconds, whole.seconds, describe(args), *peaks, None, whole.counted)
    if beside_run.ratio < needed <= best.ratio:
        return best  # the run had the machine to itself, or had not: both at one time know better
    return beside_run


def _with_bytes(setting: Setting, timing: Timing, sizes: list[Args]) -> Timing:
    """Bytes are counted on the largest of ``sizes``; of calls of very many operations on a smaller one."""
    counts = []
    for small in reversed(sizes):
        most = MOST_OPERATIONS if small is sizes[-1] or small is sizes[0] else FEW_OPERATIONS
        counts.append([counted(setting, one, small, most) for one in (setting.original, setting.candidate)])
        before, after = counts[-1]
        if before is not None and after is not None:
            peaks = before.peak_bytes, after.peak_bytes, describe(small)
            return Timing(timing.before, timing.after, timing.on, *peaks, *counts[0])
    return timing


def _compare_fastest(setting: Setting, found: list[list[Seconds]], args: Args) -> Timing:
    before, after = (pick_fastest(rounds).of(setting.phase) for rounds in found)
    return Timing(before, after, describe(args))


@dataclass(frozen=True)
class _Alone:
    seconds: float
    counted: Counted | None


def _alone(setting: Setting, args: Args, full: int, deadline: float) -> _Alone | None:
    """The candidate's phase on the whole arguments, if these can be had before long."""
    for subject in (setting.prepared, setting.candidate):
        if subject is None or (subject is setting.prepared and not _same_work(setting, subject, args)):
            continue
        most = min(0.25 * (deadline - clock.now()), MOST_SECONDS_OF_A_CALL)
        if _can_be_called(setting, subject, args, full, most):
            found = measure(setting, (subject,), args)
            if found:
                one = pick_fastest(found[0])
                return _Alone(one.of(setting.phase), counted(setting, subject, args))
    return None


def _same_work(setting: Setting, prepared: Subject, args: Args) -> bool:
    """Whether the phase does the same work after another one that leaves some out: on smaller arguments it does."""
    for usual in cuts(args, longest_axis(args)):
        small = usual(args)
        found = measure(setting, (setting.candidate, prepared), small)
        if found is not None:
            kept = [_kept(setting, one, small) for one in (setting.candidate, prepared)]
            one, other = (pick_fastest(rounds).of(setting.phase) for rounds in found)
            return kept[0] == kept[1] and max(one, other) < AS_FAST * min(one, other) + A_LITTLE
    return False


def _kept(setting: Setting, subject: Subject, args: Args) -> list[tuple[object, ...]]:
    """The shapes, dtypes and strides of what a call returns and keeps for its backward."""
    kept: list[tuple[object, ...]] = []

    def note(tensor: torch.Tensor) -> torch.Tensor:
        kept.append((tensor.shape, tensor.dtype, tensor.stride()))
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
        returned: list[object] = []
        once(setting, lambda *mine: returned.append(subject(*mine)) or returned[0], args)  # type: ignore[func-returns-value,arg-type]  # the one it has just been given
    outputs = returned[0].values() if returned and isinstance(returned[0], dict) else ()
    for value in outputs:
        if isinstance(value, torch.Tensor):
            note(value)
    return kept


def _elements(args: Args, longest: int | None) -> int:
    """How many there are if no axis is longer than ``longest``."""
    return sum(math.prod(min(size, longest or size) for size in tensor.shape) for tensor in tensors(args))


def _can_be_called(setting: Setting, subject: Subject, args: Args, full: int, seconds: float) -> bool:
    """Whether a subject takes less than ``seconds`` on the whole arguments, by ever larger parts of them."""
    longest = longest_axis(args)
    while _elements(args, longest) < full:
        for usual in cuts(args, longest):
            small = usual(args)
            one = once(setting, subject, small)
            if one is not None:
                break
        else:
            return False
        if one.all * full / max(1, _elements(small, None)) < seconds:
            return True
        longest *= 3
        if one.all * _elements(args, longest) / max(1, _elements(small, None)) > seconds:
            return False
    return True


def _measured(setting: Setting, args: Args, longest: int) -> tuple[Args, list[list[Seconds]]] | None:
    """The arguments cut to ``longest`` in a way that both take, and the seconds of both."""
    whole = all(size <= longest for tensor in tensors(args) for size in tensor.shape)
    for small in [args] if whole else (usual(args) for usual in cuts(args, longest)):
        found = measure(setting, (setting.original, setting.candidate), small)
        if found is not None:
            return small, found
    return None
