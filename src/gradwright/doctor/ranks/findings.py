"""Findings of several ranks: which are the same, and what is said of one that only some have.

Two ranks see other numbers (a loss, a time, a count of calls): findings of one code at one place about one subject are
the same where their messages differ in numbers only, or where each rank has a single one there.

NOTE [seen on some]: a rank that did not try the subject, or that has no session, has not "not found" it. And what
rests on measured time comes and goes with it. So "only" is said of those that looked, about what does not hang on time.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from gradwright.doctor.render.of_ranks import on_ranks
from gradwright.doctor.session.brought import of_rank
from gradwright.doctor.session.facts import LoopsTreated
from gradwright.doctor.session.model import Finding, Report

_MEASURED = ("speed", "memory")
_ORDER = {"error": 0, "warning": 1, "info": 2}


@dataclass
class Told:
    """A finding as rank ``first`` has it, the ``ranks`` that have it, and those that ``looked`` in vain."""

    finding: Finding
    first: int
    leader: int
    suppressed: bool
    ranks: list[int] = field(default_factory=list)
    looked: list[int] = field(default_factory=list)

    @property
    def differs(self) -> bool:
        return bool(self.looked)

    def merged(self) -> Finding:
        finding = self.finding
        if self.first != self.leader:
            finding = replace(finding, evidence=tuple(of_rank(self.first, fact) for fact in finding.evidence))
        if not self.differs and self.first == self.leader:
            return finding
        only = " only" if self.differs else ""
        return replace(finding, message=f"{finding.message} ({on_ranks(self.ranks)}{only})")


def merge_findings(reports: dict[int, Report]) -> list[Told]:
    """In reading order: errors first, then as the ranks tell them."""
    leader = next(iter(reports))
    told: list[Told] = []
    for rank, report in reports.items():
        for suppressed, findings in ((False, report.findings), (True, report.suppressed)):
            for finding in findings:
                same = _same(finding, findings, [one for one in told if one.suppressed == suppressed], rank)
                if same is None:
                    told.append(same := Told(finding, rank, leader, suppressed))
                same.ranks.append(rank)
    for one in told:
        one.looked = [rank for rank, report in reports.items() if rank not in one.ranks and _looked(one, report)]
        if _rests_on_fixes(one, reports[one.first]):
            one.looked = []
    return sorted(told, key=lambda one: _ORDER[one.finding.severity])


def _same(finding: Finding, own: Sequence[Finding], told: Sequence[Told], rank: int) -> Told | None:
    place = _place(finding)
    there = [one for one in told if _place(one.finding) == place and rank not in one.ranks]
    words = _without_numbers(finding.message)
    alike = next((one for one in there if _without_numbers(one.finding.message) == words), None)
    if alike is not None:
        return alike
    lone = len(there) == 1 and sum(_place(each) == place for each in own) == 1
    return there[0] if lone and len([one for one in told if _place(one.finding) == place]) == 1 else None


def _place(finding: Finding) -> tuple[str, str, str, int, int]:
    at = finding.location
    return finding.code, finding.subject, at.path, at.line, at.column


def _without_numbers(text: str) -> str:
    return re.sub(r"-?\d[\d.,]*(?:e[+-]?\d+)?", "#", text)


def _looked(told: Told, report: Report) -> bool:
    """See NOTE [seen on some]."""
    finding = told.finding
    if finding.category in _MEASURED:
        return False
    subject = report.subject(finding.subject)
    name = subject.name if subject is not None else finding.subject
    return not any(name in item.what or item.what.startswith(("whatever", "the values of")) for item in
                   report.not_examined)  # fmt: skip


def _rests_on_fixes(told: Told, report: Report) -> bool:
    """Fixes are tried on the leader only, and some rules speak where there is one."""
    return any(fact.id in told.finding.evidence for fact in report.of(LoopsTreated))
