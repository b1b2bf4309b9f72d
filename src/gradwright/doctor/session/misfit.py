"""What does not fit where it stands in a session."""

from __future__ import annotations

from typing import Any

from gradwright.errors import SessionError

_SHOWN = 60


class Misfit(SessionError):
    """``why`` without, the message with the way to the place, which is known from the inside out.

    >>> print(Misfit("expected an integer, found '18'").inside(".line").inside("[3]").inside(".findings"))
    findings[3].line: expected an integer, found '18'
    """

    def __init__(self, why: str) -> None:
        super().__init__(why)
        self.why = why
        self._way: list[str] = []

    def inside(self, step: str) -> Misfit:
        self._way.append(step)
        return self

    def __str__(self) -> str:
        way = "".join(reversed(self._way)).removeprefix(".")
        return f"{way}: {self.why}" if way else self.why


def told(data: Any) -> str:
    r"""A value as a message tells it: short, and without control characters.

    >>> told([1] * 10**6), told(None), told("a\x1b[31m"), told(True), told(10**100)[:8]
    ('a list of 1,000,000', 'null', "'a\\x1b[31m'", 'true', '10000000')
    """
    if isinstance(data, list):
        return f"a list of {len(data):,}"
    if isinstance(data, dict):
        return "an object"
    if isinstance(data, str):
        return repr(data[:_SHOWN]) + ("..." if len(data) > _SHOWN else "")
    if data is None or isinstance(data, bool):
        return {None: "null", True: "true", False: "false"}[data]
    return str(data)[:_SHOWN]
