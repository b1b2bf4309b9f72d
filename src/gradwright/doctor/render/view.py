"""What a report shows, before any face: strings that were cleaned, in reading order. Terminal and HTML lay this out."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from gradwright.doctor.render.excerpt import Line, excerpt
from gradwright.doctor.render.ranks import between, ill_ends
from gradwright.doctor.render.remedies import Remedy, failures, fixes_counted, how_to_fix, remedy
from gradwright.doctor.render.wording import (
    NO_CALL,
    Cell,
    clean,
    counted,
    gradient_cell,
    headline,
    seconds,
    uncalled,
    unexamined_reason,
)
from gradwright.doctor.session.facts import FunctionCalls, LoopShape, ScriptDied
from gradwright.doctor.session.model import Finding, Report, Severity
from gradwright.doctor.session.place import Location

LISTED_UNEXAMINED = 8


@dataclass(frozen=True, slots=True)
class Row:
    """One Function of the table; seconds are totals over its calls."""

    name: str
    gradient: Cell
    forward: str
    backward: str


@dataclass(frozen=True, slots=True)
class Card:
    """One finding, ready to be laid out."""

    code: str
    severity: Severity
    where: str
    message: str
    excerpt: tuple[Line, ...] = ()
    why: str = ""
    hints: tuple[str, ...] = ()
    remedy: Remedy | None = None
    failed: tuple[str, ...] = ()
    more: str = ""


@dataclass(frozen=True, slots=True)
class Unexamined:
    what: str
    why: str

    def __str__(self) -> str:
        return f"{self.what} ({self.why})" if self.why else self.what


@dataclass(frozen=True, slots=True)
class View:
    """``unexamined`` holds the first few; ``unlisted`` counts the rest, all of which are in the JSON. ``ranks``: what
    they did differently."""

    headline: str
    death: str
    death_excerpt: tuple[Line, ...]
    rows: tuple[Row, ...]
    cards: tuple[Card, ...]
    summary: str
    how_to_fix: str
    unexamined: tuple[Unexamined, ...]
    unlisted: int
    ranks: tuple[str, ...] = ()


def view(report: Report, *, listed: int | None = LISTED_UNEXAMINED) -> View:
    """``listed``: of what was not examined, so many at most; ``None``: all.

    Cost: linear in the report, but for one walk over the facts per Function.
    """
    death = report.script.exception
    died = {fact.id for fact in report.of(ScriptDied)}
    told = death is None or any(
        died & set(finding.evidence) or finding.location == death.location for finding in report.findings
    )
    unexamined = _unexamined(report)
    rows = _rows(report)
    loops = tuple(report.of(LoopShape))
    seen: set[str] = set()
    cards = []
    for finding in report.findings:
        cards.append(_card(report, finding, loops, first=finding.code not in seen))
        seen.add(finding.code)
    return View(
        headline=headline(report),
        death="" if told or death is None else clean(f"{death.type}: {death.message}").removesuffix(":"),
        death_excerpt=() if told or death is None else _excerpt(report, death.location),
        rows=tuple(rows),
        cards=tuple(cards),
        summary=_summary(report, rows),
        how_to_fix=how_to_fix(report),
        unexamined=unexamined[:listed],
        unlisted=len(unexamined) - len(unexamined[:listed]),
        ranks=between(report),
    )


def _rows(report: Report) -> list[Row]:
    rows = []
    for subject in report.subjects:
        if subject.kind not in ("function", "callable"):
            continue
        calls = next(report.of(FunctionCalls, subject.id), None)
        rows.append(
            Row(
                name=clean(subject.name),
                gradient=gradient_cell(report, subject),
                forward=seconds(calls.forward_seconds) if calls and calls.forward_calls else "-",
                backward=seconds(calls.backward_seconds) if calls and calls.backward_calls else "-",
            )
        )
    return rows


def _card(report: Report, finding: Finding, loops: tuple[LoopShape, ...], *, first: bool) -> Card:
    focus, label = _focus(loops, finding)
    lines = _excerpt(report, finding.location, focus, label)
    return Card(
        code=finding.code,
        severity=finding.severity,
        where=clean(str(finding.location) if finding.location.line > 0 else finding.location.path),
        message=clean(finding.message),
        excerpt=lines,
        why=clean(finding.why),
        hints=tuple(clean(hint) for hint in finding.hints),
        remedy=remedy(finding, lines),
        failed=failures(finding),
        more=f"gradwright explain {finding.code}" if first else "",
    )


def _excerpt(report: Report, at: Location | None, focus: Location | None = None, label: str = "") -> tuple[Line, ...]:
    source = report.source(at.path) if at is not None else None
    return excerpt(source.text, at, focus, label) if at is not None and source is not None else ()


def _focus(loops: tuple[LoopShape, ...], finding: Finding) -> tuple[Location | None, str]:
    """The heaviest expression of the loop that the finding rests on, where it stands below the finding's line."""
    if not finding.evidence:
        return None, ""
    for loop in loops:
        below = loop.hot.path == finding.location.path and 0 <= loop.hot.line - finding.location.line <= 40
        if loop.id in finding.evidence and below:
            return (
                loop.hot,
                "once per element" if loop.per_element else f"in each of {counted(loop.iterations, 'iteration')}",
            )
    return None, ""


def _summary(report: Report, rows: list[Row]) -> str:
    parts = []
    if all(finding.severity == "info" for finding in report.findings):
        died = report.script.exception is not None or (report.script.exit_code or 0) < 0
        wrong = any(row.gradient.tone == "bad" for row in rows)  # its finding was suppressed or not selected
        judged = any(row.gradient.word not in ("not examined", "unknown") for row in rows)
        clean_bill = "nothing else was found" if wrong else "nothing wrong was found"
        if report.script.not_selected:
            clean_bill = "nothing wrong was found among the codes that were selected"
        if report.saw_nothing:
            clean_bill = f"nothing was judged: {report.no_clean_bill}"
            died = False
        elif report.no_clean_bill:
            clean_bill = "nothing was found in what could be watched"
        if rows and not judged and not wrong and not report.script.argv:
            clean_bill = "no gradient could be judged"  # of what `gw.diagnose` was given
        ill = ill_ends(report)
        parts += ill or ["no rule explains how the script ended" if died else clean_bill]
        if report.findings:
            parts.append(counted(len(report.findings), "finding for information", "findings for information"))
    else:
        severities = Counter(finding.severity for finding in report.findings)
        nouns: dict[Severity, str] = {"error": "errors", "warning": "warnings", "info": "info"}
        kinds = [counted(severities[one], one, more) for one, more in nouns.items() if severities[one]]
        parts.append(counted(len(report.findings), "finding") + (f" ({', '.join(kinds)})" if len(kinds) > 1 else ""))
        parts += ill_ends(report)
    parts += fixes_counted(report.findings)
    left_out = {"suppressed": len(report.suppressed), "not selected": report.script.not_selected}
    return " · ".join([", ".join(parts), *(f"{count:,} {why}" for why, count in left_out.items() if count)])


def _unexamined(report: Report) -> tuple[Unexamined, ...]:
    items = [Unexamined(clean(item.what), clean(item.why)) for item in report.not_examined]
    named = {item.what for item in items}
    for subject in report.subjects:
        name = clean(subject.name)
        if uncalled(report, subject) and unexamined_reason(report, subject) == NO_CALL and name not in named:
            items.append(Unexamined(name, NO_CALL))
    return tuple(items)
