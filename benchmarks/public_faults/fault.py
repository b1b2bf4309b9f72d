"""What a file of faults/ holds, and how a version of its package is loaded."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from wild.fetching import pins
from wild.loading import load

PINS = pins(Path(__file__).parent / "requirements.txt")
Load = Callable[..., Any]


@dataclass(frozen=True)
class Fault:
    """``call(load)`` returns the subject and its inputs; ``load(module, **options)`` imports from the version in turn.

    ``code`` and ``cause`` are what the fix says the fault was. ``source``: where the fix is told, or its diff.
    """

    before: str
    after: str
    function: str
    what: str
    source: str
    code: str
    cause: str
    call: Callable[[Load], tuple[Any, tuple[Any, ...]]]


def loader(version: str) -> Load:
    """``load`` for one pinned version, such as "entmax==1.0"; ``package=`` names another pin."""

    def of_version(module: str, *, package: str = version, bare: bool = True, absent: Sequence[str] = ()) -> Any:
        return load(module, PINS[package], bare=bare, absent=absent)

    return of_version
