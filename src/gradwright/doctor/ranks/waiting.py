"""The leader waits for the sessions of its machine's other ranks: for as long as they live, and no longer."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from gradwright.doctor.ranks.meeting import HandedOver, Meeting
from gradwright.doctor.ranks.merging import Member
from gradwright.doctor.session.codec import from_json
from gradwright.errors import SessionError

_POLL_SECONDS = 0.1
_ARRIVAL_SECONDS = 30.0  # from our own beginning: ranks start together
_TELL_AFTER = 3.0
_MANY = "; LOCAL_WORLD_SIZE says how many ranks are on it"


def others(meeting: Meeting, seconds: float | None, tell: Callable[[str], None]) -> tuple[list[Member], list[str]]:
    """The other ranks of this machine, and what their doctors failed with. ``seconds``: how long a rank that lives is
    waited for (``None``: without end). Cost: until the last has handed over, has died, or the time is up."""
    waited_for = [rank for rank in meeting.rank.here if rank != meeting.rank.rank]
    began, told, found, failures = time.monotonic(), False, {}, []
    try:
        while waited_for:
            for rank in tuple(waited_for):
                member, failure = _look(meeting, rank, None if seconds is None else began + seconds)
                if member is not None:
                    waited_for.remove(rank)
                    found[rank] = member
                    failures += [f"on rank {rank}: {failure}"] if failure else []
            if waited_for and not told and time.monotonic() > began + _TELL_AFTER:
                told = True
                tell(f"waiting for {', '.join(f'rank {rank}' for rank in waited_for)}")
            if waited_for:
                time.sleep(_POLL_SECONDS)
    except KeyboardInterrupt:
        for rank in waited_for:
            word = meeting.handed_over(rank)
            found[rank] = _read(rank, word)[0] if word else Member(rank, None, missing="not waited for: interrupted")
    return [found[rank] for rank in sorted(found)], failures


def _look(meeting: Meeting, rank: int, until: float | None) -> tuple[Member | None, str]:
    lives = meeting.is_alive(rank)  # asked first: a rank hands over and goes
    word = meeting.handed_over(rank)
    if word is not None:
        return _read(rank, word)
    if lives:
        if until is None or time.monotonic() < until:
            return None, ""
        return Member(rank, None, missing="it had not come to its end when the time for waiting was up"), ""
    if meeting.is_here(rank):
        return Member(rank, None, missing="its process ended before it had a session"), ""
    if time.time() < meeting.began + _ARRIVAL_SECONDS:
        return None, ""
    return Member(rank, None, missing=f"it did not come to {meeting.folder} on this machine{_MANY}"), ""


def _read(rank: int, word: HandedOver) -> tuple[Member, str]:
    if not word.session:
        return Member(rank, None, missing=f"the doctor failed: {word.failure.splitlines()[-1]}"), word.failure
    try:
        report = from_json(Path(word.session).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, SessionError) as error:
        return Member(rank, None, word.session, f"its session can't be read: {error}"), word.failure
    return Member(rank, report, word.session), word.failure
