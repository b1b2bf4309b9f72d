"""Where ranks part over the gradient of one Function, nothing is said that holds on some of them only.

NOTE [parted verdicts]: a Function that is right on rank 0 and wrong on rank 1 (it asks for its rank, or its data tell)
is one text. "Not needed: the same gradient", which rank 0 has found, would be read for all; and a fix that rank 0 has
proved would change what was right elsewhere, or mend another fault than the other ranks have.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from gradwright.doctor.ranks.findings import Told
from gradwright.doctor.session.facts import GradientVerdict
from gradwright.doctor.session.model import NotExamined, Report


def without_what_parts(
    told: Sequence[Told], reports: dict[int, Report], leader: int
) -> tuple[list[Told], list[NotExamined]]:
    """Less the findings that rest on a right gradient which another rank found wrong, and less the fixes of Functions
    over which ranks part: these are named. Cost: linear in the facts."""
    faults: dict[str, set[frozenset[object]]] = {}
    for report in reports.values():
        for subject in {fact.subject for fact in report.of(GradientVerdict) if fact.verdict != "unknown"}:
            faults.setdefault(subject, set()).add(_faults(report, subject))
    wrong = {subject for subject, kinds in faults.items() if any(kinds)}
    parted = {subject for subject in wrong if len(faults[subject]) > 1}
    kept, said = [], []
    for one in told:
        report = reports[one.first]
        rests_on = {fact.verdict for fact in report.of(GradientVerdict) if _found_wrong(one, fact, wrong)}
        if "right" in rests_on and "wrong" not in rests_on:
            continue
        if one.finding.fix is not None and _subjects(one, report) & parted:
            why = f"it was tried on rank {leader} only, and the ranks part over this gradient"
            said.append(NotExamined(f"a fix of {one.finding.code} at {one.finding.location}", why))
            one = dataclasses.replace(one, finding=one.finding.with_fix((), None))
        kept.append(one)
    return kept, said


def _faults(report: Report, subject: str) -> frozenset[object]:
    """What is wrong, without what differs with the data; empty where nothing is."""
    return frozenset(
        (fact.input_index, fact.cause, round(fact.factor or 0.0, 3) if fact.cause == "constant factor" else 0.0)
        for fact in report.of(GradientVerdict, subject)
        if fact.verdict == "wrong"
    )


def _found_wrong(told: Told, fact: GradientVerdict, wrong: set[str]) -> bool:
    """Whether the finding rests on a verdict about what some rank has found wrong."""
    return fact.id in told.finding.evidence and fact.subject in wrong


def _subjects(told: Told, report: Report) -> set[str]:
    named = {one.id for one in report.subjects if told.finding.subject in (one.id, one.name)}
    return named | {fact.subject for fact in report.facts if fact.id in told.finding.evidence}
