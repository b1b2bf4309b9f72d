"""Every n-th time."""

from __future__ import annotations

from gradwright.errors import UsageError


def checked(every: int) -> int:
    """Raises: UsageError."""
    if not isinstance(every, int) or isinstance(every, bool) or every < 1:
        raise UsageError(f"every is {every!r}: it is a whole number, 1 or more")
    return every


class Turns:
    """
    >>> turns = Turns(2)
    >>> [turns.take() for _ in range(4)]
    [True, False, True, False]
    """

    def __init__(self, every: int) -> None:
        self._every, self._taken = checked(every), 0

    def take(self) -> bool:
        self._taken += 1
        return (self._taken - 1) % self._every == 0
