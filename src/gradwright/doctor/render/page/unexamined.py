"""What was not looked at, all of it: things with one reason stand together."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from gradwright.doctor.render.page.text import said
from gradwright.doctor.render.view import Unexamined


@dataclass(frozen=True, slots=True)
class Unseen:
    why: str
    whats: tuple[str, ...]


def grouped(items: Iterable[Unexamined]) -> tuple[Unseen, ...]:
    """In the order in which each reason is first given.

    >>> grouped([Unexamined("a", "no time"), Unexamined("b", ""), Unexamined("c", "no time")])
    (Unseen(why='no time', whats=('a', 'c')), Unseen(why='', whats=('b',)))
    """
    by_reason: dict[str, list[str]] = {}
    for item in items:
        by_reason.setdefault(said(item.why), []).append(said(item.what))
    return tuple(Unseen(why, tuple(whats)) for why, whats in by_reason.items())
