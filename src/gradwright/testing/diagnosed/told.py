"""The section of pytest's summary: the doctor's report, who called what it found, and what it means for the exit."""

from __future__ import annotations

from collections.abc import Iterator

from gradwright.doctor.render.wording import clean, counted
from gradwright.doctor.session.facts import CalledByTests
from gradwright.doctor.session.model import Report


def callers(report: Report) -> Iterator[str]:
    """A line for every Function that a finding is about: the tests that called it."""
    cited = {id_ for finding in report.findings for id_ in finding.evidence}
    found = {fact.subject for fact in report.facts if fact.id in cited}
    for subject in report.subjects:
        if subject.id not in found:
            continue
        fact = next(report.of(CalledByTests, subject.id), None)
        if fact is None:
            continue
        if not fact.tests:
            yield f"{clean(subject.name)} was called by no test: at import, or while tests were collected"
            continue
        rest = fact.count - len(fact.tests)
        more = f" and {counted(rest, 'more test')}" if rest > 0 else ""
        yield f"{clean(subject.name)} was called in {', '.join(clean(test) for test in fact.tests)}{more}"


def of_fixes(report: Report) -> str:
    """How the fixes that the report shows are made; "" if there is none."""
    many = sum(finding.fix is not None for finding in report.findings)
    if not many:
        return ""
    ours = "the fix above is" if many == 1 else "the fixes above are"
    return f"{ours} to be made by hand: gradwright fix works on scripts, not on sessions of tests"


def verdict(report: Report, *, made_red: bool, green: bool, session: str) -> str:
    """The last line: what the findings do to the exit status of a green session, and where they are kept."""
    parts = []
    if made_red:
        parts.append("the tests passed, these findings make the exit status 1 (--gradwright-exit-zero: they do not)")
    elif green and not report.ok:
        parts.append("these findings leave the exit status alone")
    if session:
        parts.append(f"session in {session}")
    return " · ".join(parts)
