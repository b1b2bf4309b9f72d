"""What objects tell of themselves: a surrogate its reason, a custom gradient the function in which it is written.

``functions`` sets what is read here.
"""

from __future__ import annotations

from typing import Any

MARK = "__gradwright_surrogate__"
BACKWARD = "__gradwright_backward__"


def surrogate_reason(subject: object) -> str | None:
    """The reason that ``subject`` was declared a surrogate for, ``None`` if it was not. Subclasses inherit it."""
    reason = getattr(subject, MARK, None)
    return reason if isinstance(reason, str) else None


def written_backward(subject: object) -> Any:
    """The function in which the gradient of ``subject`` is written, if it tells; else ``subject`` itself."""
    return getattr(subject, BACKWARD, subject)
