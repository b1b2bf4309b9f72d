"""What a rule is, and the facts it is shown."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TypeVar

from gradwright.doctor.session.facts import Fact
from gradwright.doctor.session.model import Category, Finding, Severity, Subject
from gradwright.doctor.session.place import Location

F = TypeVar("F", bound=Fact)

CATEGORIES: dict[str, Category] = {
    "1": "gradient",
    "2": "contract",
    "3": "speed",
    "4": "memory",
    "5": "numerics",
    "6": "training",
    "9": "doctor",
}


@dataclass(frozen=True)
class Rule:
    """One fault: its code and name, how bad it is, the facts it reads, the rewrite that mends it.

    ``messages`` are regular expressions of the exceptions (torch 2.11 and later) that this rule explains, which is how
    a pasted message finds it. ``causes`` are the codes of faults that bring this one about: found together, the cause
    is told first and this one says that it follows. A ``last_resort`` speaks only of what no other finding cites.
    ``told_by``: the public function whose reports have this code, where the doctor itself does not look for it.

    The module that holds a rule is its specification: its docstring is the page of the docs (headed What it finds, Why
    it matters, When it is fine, The fix, References), ``judge(subject, facts)`` yields the findings (there is none if
    it is ``told_by`` another).
    """

    code: str
    name: str
    severity: Severity
    needs: tuple[type[Fact], ...]
    rewrite: str | None = None
    messages: tuple[str, ...] = ()
    causes: tuple[str, ...] = ()
    last_resort: bool = False
    told_by: str = ""

    @property
    def category(self) -> Category:
        return CATEGORIES[self.code[2]]

    def match(self, message: str) -> re.Match[str] | None:
        """The first of ``messages`` found in an exception's text."""
        return next((found for pattern in self.messages if (found := re.search(pattern, message))), None)

    def finding(
        self,
        subject: Subject,
        *,
        at: Location,
        message: str,
        why: str,
        hints: Iterable[str] = (),
        evidence: Iterable[str] = (),
        severity: Severity | None = None,
    ) -> Finding:
        return Finding(
            code=self.code,
            name=self.name,
            category=self.category,
            severity=severity or self.severity,
            subject=subject.name,
            location=at,
            message=message,
            why=why,
            hints=tuple(hints),
            evidence=tuple(evidence),
        )


class Facts:
    """The facts of a session as one subject's rules see them."""

    def __init__(self, facts: Iterable[Fact], subject: Subject) -> None:
        self._facts = tuple(facts)
        self._subject = subject

    def of(self, kind: type[F]) -> Iterator[F]:
        """Facts of one kind about the subject."""
        return (fact for fact in self.all(kind) if fact.subject == self._subject.id)

    def all(self, kind: type[F]) -> Iterator[F]:
        """Facts of one kind about anything in the session."""
        return (fact for fact in self._facts if isinstance(fact, kind))
