"""A change of source that a rewrite proposes, before anything has been tried."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Proposal:
    """The whole new text of one file, and where in it the change lies.

    ``class_name`` is the class whose method changed ("" for a plain function), ``function`` that method or function,
    ``lines`` its first and last line in ``new_text``; ``changed`` are the lines of ``new_text`` that are new; ``what``
    says in one sentence what changes.
    """

    rewrite: str
    path: str
    new_text: str
    diff: str
    what: str
    class_name: str
    function: str
    lines: tuple[int, int]
    changed: tuple[int, ...]
