"""What a check answers: findings, what was not checked, and the report that holds them. Frozen data without tensors."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType
from typing import Any, Literal

from gradwright.checking.cotangents import Tried
from gradwright.checking.verdict import InputVerdict
from gradwright.errors import GradientError

Severity = Literal["error", "warning", "info"]
Level = Literal["quick", "standard", "full"]


@dataclass(frozen=True, slots=True)
class Place:
    """A line of the user's source; ``line`` counts from 1."""

    path: str
    line: int

    def __str__(self) -> str:
        return f"{self.path}:{self.line}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One fault. ``code`` and ``name`` are the rule's (``gradwright explain GW101``); ``cause`` says what fits in a
    few fixed words; ``input`` names the input concerned ("" if none is); ``evidence`` holds plain values by name."""

    code: str
    name: str
    cause: str
    severity: Severity
    message: str
    why: str = ""
    do: str = ""
    input: str = ""
    check: str = ""
    evidence: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    location: Place | None = None


_RANK = {"error": 0, "warning": 1, "info": 2}
# What a fault brings about: a cotangent that is written to breaks first where it is expanded.
_ROOTS = {"GW209": "GW202"}


def in_order(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Errors first, and of these the root before what follows from it; otherwise as the checks found them."""
    found = list(findings)
    codes = {finding.code for finding in found}
    return tuple(sorted(found, key=lambda finding: (_RANK[finding.severity], _ROOTS.get(finding.code) in codes)))


@dataclass(frozen=True, slots=True)
class NotChecked:
    """Something that was not looked at, and why not: silence about it is no verdict."""

    what: str
    why: str

    def __str__(self) -> str:
        return f"{self.what}: {self.why}"


@dataclass(frozen=True, slots=True)
class Done:
    """A check that ran, how many comparisons it made, and how long it took."""

    check: str
    comparisons: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Given:
    """A judged input in words: dtype and shape, and the value at the entry that differs most ("" if none does)."""

    what: str
    value: str = ""


@dataclass
class Gathered:
    """What is known so far: kept here, so that an interruption loses nothing."""

    verdicts: list[InputVerdict] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    not_checked: list[NotChecked] = field(default_factory=list)
    done: list[Done] = field(default_factory=list)
    tried: list[Tried] = field(default_factory=list)
    misfit: Exception | None = None  # the subject is not a function of its inputs as the check must ask it


@dataclass(frozen=True, kw_only=True)
class CheckReport:
    """What ``gw.check`` found. Printed, it is text; in a notebook, a table.

    ``verdicts``: one per judged input, ``given``: what each of those was. ``findings``: errors first. ``not_checked``:
    what no check looked at, and why. ``counterexample``: the first fault, shrunk, as a script that needs torch alone
    ("" if nothing was found).
    """

    subject: str
    level: str
    seed: int
    verdicts: tuple[InputVerdict, ...] = ()
    given: tuple[Given, ...] = ()
    findings: tuple[Finding, ...] = ()
    not_checked: tuple[NotChecked, ...] = ()
    done: tuple[Done, ...] = ()
    seconds: float = 0.0
    shrink: Callable[[], str] = field(default=lambda: "", repr=False, compare=False)

    @property
    def ok(self) -> bool:
        """No error and no warning. What was not checked doesn't count against it: see ``not_checked``."""
        return not any(finding.severity in ("error", "warning") for finding in self.findings)

    @cached_property
    def counterexample(self) -> str:
        return "" if self.ok else self.shrink()

    def raise_for_findings(self) -> None:
        """Raise ``GradientError`` with the whole report as its message, unless ``ok``."""
        if not self.ok:
            raise GradientError(str(self))

    def __str__(self) -> str:
        from gradwright.checking.shown import as_text

        return as_text(self)

    def _repr_html_(self) -> str:
        from gradwright.checking.shown import as_html

        return as_html(self)
