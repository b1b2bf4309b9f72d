"""What a property is."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch

from gradwright.checking.losses.case import Case
from gradwright.checking.losses.loss import Sample
from gradwright.checking.report import Finding, Level, NotChecked, Severity
from gradwright.checking.verdict import InputVerdict

Answer = Finding | NotChecked | InputVerdict

_LEVELS: tuple[Level, ...] = ("quick", "standard", "full")
_CONSEQUENCES = {"GW504", "GW508"}  # of masks that do not complement each other


@dataclass(frozen=True)
class Property:
    """One thing that holds for every good loss. ``number``: its place in the order; ``since``: the first level.

    ``names``: the rule's name of each code that it may find. ``of_kinds``: it can be asked only of a loss whose kind is
    known. ``watched``: it may be interrupted (what watches itself must not be).
    """

    number: int
    title: str
    since: Level
    names: dict[str, str]
    run: Callable[[Case], Iterator[Answer]]
    of_kinds: bool = False
    watched: bool = True

    def runs_at(self, level: Level) -> bool:
        return _LEVELS.index(level) >= _LEVELS.index(self.since)

    def finding(
        self,
        case: Case,
        code: str,
        *,
        cause: str,
        message: str,
        why: str = "",
        do: str = "",
        severity: Severity = "error",
        at: tuple[Sample, ...] = (),
        dtype: torch.dtype | None = None,
        **evidence: Any,
    ) -> Finding:
        """A finding of this property, shown by the calls ``at``. What follows from a known root is information."""
        if case.explained_by and case.explained_by != code and code in _CONSEQUENCES:
            severity, why = "info", f"{why}; this follows from {case.explained_by}: mend that first"
        finding = Finding(
            code=code,
            name=self.names[code],
            cause=cause,
            severity=severity,
            message=f"{case.loss.label} {message}",
            why=why,
            do=do,
            check=self.title,
            evidence=evidence,
            location=case.location,
        )
        if at:
            case.specimens.append((finding, at, dtype or case.loss.dtype))
        return finding
