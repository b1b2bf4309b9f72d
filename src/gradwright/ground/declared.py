"""Is a gradient declared to be a surrogate? ``functions.surrogate`` sets the mark that is read here."""

from __future__ import annotations

MARK = "__gradwright_surrogate__"


def surrogate_reason(subject: object) -> str | None:
    """The reason that ``subject`` was declared a surrogate for, ``None`` if it was not. Subclasses inherit it."""
    reason = getattr(subject, MARK, None)
    return reason if isinstance(reason, str) else None
