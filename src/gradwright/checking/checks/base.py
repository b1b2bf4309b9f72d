"""What a check is."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from gradwright.checking.cotangents import Tried
from gradwright.checking.problem import Problem
from gradwright.checking.report import Finding, Level, NotChecked, Severity
from gradwright.checking.verdict import InputVerdict

LEVELS: tuple[Level, ...] = ("quick", "standard", "full")
Answer = Finding | NotChecked | InputVerdict | Tried


@dataclass(frozen=True)
class Check:
    """One question about one call. ``number``: its place in the order of value; ``since``: the first level it runs at.

    ``names``: the rule's name of each code that it may find. ``run(problem)`` yields what it finds; whatever the
    subject raises in it is the check's to catch, or else becomes a line of ``not_checked``.
    """

    number: int
    title: str
    since: Level
    names: dict[str, str]
    run: Callable[[Problem], Iterator[Answer]]

    def runs_at(self, level: Level) -> bool:
        return LEVELS.index(level) >= LEVELS.index(self.since)

    def finding(
        self,
        problem: Problem,
        code: str,
        *,
        cause: str,
        message: str,
        why: str = "",
        do: str = "",
        index: int | None = None,
        severity: Severity = "error",
        **evidence: Any,
    ) -> Finding:
        """A finding of this check; ``index`` is the position of the input concerned."""
        return Finding(
            code=code,
            name=self.names[code],
            cause=cause,
            severity=severity,
            message=message,
            why=why,
            do=do,
            input="" if index is None else problem.names[index],
            check=self.title,
            evidence=evidence,
            location=problem.location,
        )
