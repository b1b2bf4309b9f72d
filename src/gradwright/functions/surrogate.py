"""A gradient that is not meant to be the derivative, said so where it is defined."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from gradwright.errors import UsageError
from gradwright.ground.declared import MARK, surrogate_reason

__all__ = ["surrogate", "surrogate_reason"]

T = TypeVar("T", bound=Callable[..., object])


def surrogate(*args: object, reason: str | None = None) -> Callable[[T], T]:
    """Declare that a Function's (or callable's) gradient is a surrogate, on purpose, and why.

    The decorated object is returned as it is, with the reason stored on it; the doctor then keeps its other checks on
    and reports the gradient as declared. Cost: none at run time. Raises: UsageError, without a reason.

    >>> @surrogate(reason="straight-through estimator")
    ... class Round:
    ...     pass
    >>> surrogate_reason(Round)
    'straight-through estimator'
    """
    if args or not isinstance(reason, str) or not reason.strip():
        raise UsageError(
            "surrogate needs the reason for which the gradient is not the derivative.\n"
            '  do     write @surrogate(reason="straight-through estimator") above the class'
        )
    told = reason.strip()

    def declare(subject: T) -> T:
        if not callable(subject):
            raise UsageError(f"surrogate decorates a Function or a callable, not {type(subject).__name__}")
        setattr(subject, MARK, told)
        return subject

    return declare
