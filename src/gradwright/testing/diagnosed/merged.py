"""The reports of pytest-xdist's workers become one: what several of them found is told once."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Hashable, Iterable, Iterator, Mapping
from typing import Any

from gradwright.doctor.session.facts import (
    CalledByTests,
    Counterexample,
    DeclaredSurrogate,
    Fact,
    FunctionCalls,
    FunctionFormula,
    GradientVerdict,
)
from gradwright.doctor.session.model import Environment, Finding, NotExamined, Report, Script, Subject
from gradwright.testing.diagnosed.record import LISTED_TESTS, NO_TEST, ONLY_LEFT_OUT

# One of each subject, whoever saw it; every other fact is one worker's.
_OF_THE_SUBJECT = (FunctionCalls, CalledByTests, DeclaredSurrogate, FunctionFormula)
_ORDER = {"error": 0, "warning": 1, "info": 2}
_NUMBER = re.compile(r"\d[\d,.]*(?:e-?\d+)?(?: [mu]?s\b)?")


def merged(reports: Mapping[str, Report]) -> Report:
    """One report of all, by the workers' names.

    A subject's calls and tests are added up; every other fact stays, under an id with its worker's name. A finding is
    the same if code, subject and place are, and the message but for its numbers, which are measured anew by each
    worker: the first is told, or the first with a fix. What one worker could not examine and another did is examined.
    """
    if not reports:
        return Report()
    own = {worker: _renamed(report, worker) for worker, report in reports.items()}
    all_facts = [fact for report in own.values() for fact in report.facts]
    subjects = {subject.id: subject for report in own.values() for subject in report.subjects}
    gaps = _left(own.values(), [subject.name for subject in subjects.values()], _judged(all_facts, subjects))
    first = next(iter(own.values()))
    findings = _once(finding for report in own.values() for finding in report.findings)
    return dataclasses.replace(
        first,
        environment=next((one.environment for one in own.values() if one.environment.torch), Environment()),
        script=Script(),
        sources=tuple({source.path: source for report in own.values() for source in report.sources}.values()),
        subjects=tuple(subjects.values()),
        specimens=tuple(specimen for report in own.values() for specimen in report.specimens),
        facts=tuple(_added(all_facts)),
        findings=tuple(sorted(findings, key=lambda finding: _ORDER[finding.severity])),
        suppressed=tuple(_once(finding for report in own.values() for finding in report.suppressed)),
        not_examined=tuple(gaps),
    )


def _judged(facts: Iterable[Fact], subjects: Mapping[str, Subject]) -> set[str]:
    found = {fact.subject for fact in facts if isinstance(fact, GradientVerdict)}
    return {subjects[subject].name for subject in found if subject in subjects}


def _left(reports: Iterable[Report], called: Iterable[str], judged: set[str]) -> list[NotExamined]:
    """What no worker examined, once each."""
    called = set(called)
    by_what: dict[str, NotExamined] = {}
    for gap in (gap for report in reports for gap in report.not_examined):
        elsewhere = gap.what.removeprefix("the gradient of ") in judged
        uncalled = gap.why.startswith((NO_TEST, ONLY_LEFT_OUT)) and gap.what in called
        if not elsewhere and not uncalled:
            by_what.setdefault(gap.what, gap)
    return list(by_what.values())


def _renamed(report: Report, worker: str) -> Report:
    """With the worker's name before the ids of facts and specimens, wherever they are cited."""

    def fact(one: Fact) -> Fact:
        if isinstance(one, _OF_THE_SUBJECT):
            return one
        changed: dict[str, Any] = {"id": f"{worker} {one.id}"}
        if getattr(one, "specimen", ""):
            changed["specimen"] = f"{worker} {one.specimen}"  # type: ignore[attr-defined]  # it was just looked at
        if isinstance(one, Counterexample):
            changed["verdict"] = f"{worker} {one.verdict}"
        return dataclasses.replace(one, **changed)

    kept = {one.id for one in report.facts if isinstance(one, _OF_THE_SUBJECT)}

    def finding(one: Finding) -> Finding:
        evidence = tuple(id_ if id_ in kept else f"{worker} {id_}" for id_ in one.evidence)
        return dataclasses.replace(one, evidence=evidence)

    return dataclasses.replace(
        report,
        specimens=tuple(dataclasses.replace(one, id=f"{worker} {one.id}") for one in report.specimens),
        facts=tuple(map(fact, report.facts)),
        findings=tuple(map(finding, report.findings)),
        suppressed=tuple(map(finding, report.suppressed)),
    )


def _added(facts: Iterable[Fact]) -> Iterator[Fact]:
    known: dict[str, Fact] = {}
    for fact in facts:
        before = known.get(fact.id)
        if isinstance(before, FunctionCalls) and isinstance(fact, FunctionCalls):
            fact = dataclasses.replace(
                before,
                forward_calls=before.forward_calls + fact.forward_calls,
                tracked_calls=before.tracked_calls + fact.tracked_calls,
                backward_calls=before.backward_calls + fact.backward_calls,
                forward_seconds=before.forward_seconds + fact.forward_seconds,
                backward_seconds=before.backward_seconds + fact.backward_seconds,
                share_of_step=max(before.share_of_step, fact.share_of_step),
            )
        elif isinstance(before, CalledByTests) and isinstance(fact, CalledByTests):
            fact = dataclasses.replace(
                before,
                tests=tuple(sorted({*before.tests, *fact.tests}))[:LISTED_TESTS],
                count=before.count + fact.count,
                seconds=before.seconds + fact.seconds,
            )
        known[fact.id] = fact
    yield from known.values()


def _once(findings: Iterable[Finding]) -> list[Finding]:
    told: dict[Hashable, Finding] = {}
    for finding in findings:
        at = finding.location
        message = _NUMBER.sub("#", finding.message)
        key = (finding.code, finding.subject, at.path, at.line, at.column, message)
        if key not in told or (told[key].fix is None and finding.fix is not None):
            told[key] = finding
    return list(told.values())
