"""Where in the user's text a call of torch came from."""

from __future__ import annotations

import sys
from types import CodeType, FrameType

from gradwright.doctor.session.place import Location
from gradwright.doctor.source.places import is_user_file, location_in, user_frame

_USERS, _ALL = 12, 80


class Places:
    """The places of calls, each worked out once."""

    def __init__(self) -> None:
        self._known: dict[tuple[CodeType, int], Location] = {}

    def here(self) -> Location | None:
        """The innermost call of the user's that led here, None if there is none. Cost: 2 microseconds."""
        frame = user_frame(2)
        if frame is None:
            return None
        key = (frame.f_code, frame.f_lasti)
        at = self._known.get(key)
        if at is None:
            at = self._known[key] = location_in(frame.f_code, frame.f_lasti, frame.f_lineno)
        return at


def calls_of_the_user() -> tuple[tuple[CodeType, int], ...]:
    """The calls that led here, innermost first: two losses that go backward in one helper are told apart by its
    callers."""
    found: list[tuple[CodeType, int]] = []
    frame: FrameType | None = sys._getframe(2)
    for _ in range(_ALL):
        if frame is None or len(found) == _USERS:
            break
        if is_user_file(frame.f_code.co_filename):
            found.append((frame.f_code, frame.f_lasti))
        frame = frame.f_back
    return tuple(found)
