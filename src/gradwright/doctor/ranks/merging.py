"""The sessions of several ranks as one: what all have said is told once, what some have said is told with their number.

Nothing runs here: reports in, a report out. Rank 0's facts keep their ids; of the other ranks come the facts that their
own findings rest on, and those about what rank 0 has not met or could not judge, each id with its rank before it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from gradwright.doctor import rules
from gradwright.doctor.ranks.differing import differences
from gradwright.doctor.ranks.findings import Told, merge_findings
from gradwright.doctor.ranks.lost_peers import fates_of
from gradwright.doctor.ranks.parted_verdicts import without_what_parts
from gradwright.doctor.render.of_ranks import on_ranks
from gradwright.doctor.session.brought import of_rank
from gradwright.doctor.session.facts import Fact, FunctionCalls, GradientVerdict, RankRun, Timeline
from gradwright.doctor.session.model import NotExamined, Report, Script, Specimen

T = TypeVar("T")


@dataclass(frozen=True)
class Member:
    """One rank's report, ``session`` its file; or why there is none (``missing``)."""

    rank: int
    report: Report | None
    session: str = ""
    missing: str = ""


def merge(members: Sequence[Member], world_size: int) -> Report:
    """One report of ranks in the order of their numbers, the first of which has one. Cost: linear in the reports."""
    reports = {member.rank: member.report for member in members if member.report is not None}
    first, base = next(iter(reports.items()))
    fates = fates_of(reports, [member.rank for member in members if member.missing])
    runs = [_run(member, world_size, fates.unexplained.get(member.rank, "")) for member in members]
    told, unproved = without_what_parts(merge_findings(fates.reports), reports, first)
    brought: list[Fact | Specimen] = []
    judged = _judged(base)
    for rank, report in reports.items():
        if rank != first:
            brought += _brought(rank, report, base, told, judged)
            judged |= _judged(report)
    return dataclasses.replace(
        base,
        script=_script(fates.reports, base.script),
        sources=_united((report.sources for report in reports.values()), "path"),
        subjects=_united((report.subjects for report in reports.values()), "id"),
        specimens=(*base.specimens, *(item for item in brought if isinstance(item, Specimen))),
        facts=(
            *base.facts,
            *(item for item in brought if isinstance(item, Fact)),
            *runs,
            *differences(reports, told, fates.ends),
        ),
        findings=tuple(one.merged() for one in told if not one.suppressed),
        suppressed=tuple(one.merged() for one in told if one.suppressed),
        not_examined=(
            *_not_examined(reports),
            *fates.consequences,
            *(NotExamined(f"rank {member.rank}", member.missing) for member in members if member.missing),
            *_without_a_fix(told, first),
            *unproved,
        ),
    )


def _run(member: Member, world_size: int, unexplained: str) -> RankRun:
    script = member.report.script if member.report is not None else Script()
    return RankRun(
        id=f"run of rank {member.rank}",
        subject="script",
        rank=member.rank,
        world_size=world_size,
        session=member.session,
        exit_code=script.exit_code,
        seconds=script.seconds,
        steps=script.steps,
        gradients=script.gradients,
        missing=member.missing,
        unexplained=unexplained,
    )


def _script(reports: dict[int, Report], first: Script) -> Script:
    """Rank 0's, with the worst end that any has come to."""
    scripts = [report.script for report in reports.values()]
    codes = [script.exit_code for script in scripts if script.exit_code is not None]
    death = next((script.exception for script in scripts if script.exception is not None), None)
    worst = min((code for code in codes if code < 0), default=max(codes, default=None))
    return dataclasses.replace(first, rank=None, exit_code=worst, exception=death)


def _judged(report: Report) -> set[tuple[str, bool]]:
    """What has a verdict, and what has a wrong one."""
    return {(fact.subject, wrong) for fact in report.of(GradientVerdict) for wrong in {False, fact.verdict == "wrong"}}


def _brought(
    rank: int, report: Report, base: Report, told: Sequence[Told], judged: set[tuple[str, bool]]
) -> list[Fact | Specimen]:
    """What another rank adds, under ids of its own: also verdicts on what no rank before it has ``judged``, and on what
    none has found wrong."""
    evidence = {fact for one in told if one.first == rank for fact in one.finding.evidence}
    known = {subject.id for subject in base.subjects}
    brought = evidence | {fact.id for fact in report.of(Timeline)}  # a trace has a process for each rank
    brought |= {fact.id for fact in report.of(GradientVerdict) if (fact.subject, fact.verdict == "wrong") not in judged}
    facts = [fact for fact in report.facts if fact.id in brought or fact.subject not in known]
    used = {getattr(fact, "specimen", "") for fact in facts}
    specimens = [one for one in report.specimens if one.id in used or one.subject not in known]
    return [*(_named(one, rank) for one in specimens), *(_named(fact, rank) for fact in facts)]


def _named(item: Any, rank: int) -> Any:
    changed = {"id": of_rank(rank, item.id)}
    if getattr(item, "specimen", ""):
        changed["specimen"] = of_rank(rank, item.specimen)
    return dataclasses.replace(item, **changed)


def _united(parts: Iterable[Sequence[T]], key: str) -> tuple[T, ...]:
    found: dict[str, T] = {}
    for part in parts:
        for item in part:
            found.setdefault(getattr(item, key), item)
    return tuple(found.values())


def _not_examined(reports: dict[int, Report]) -> list[NotExamined]:
    """What rank 0 did not look at, then what only others did not. A Function that one rank called was met."""
    ranks: dict[str, list[int]] = {}
    first: dict[str, NotExamined] = {}
    called = {rank: _called(report) for rank, report in reports.items()}
    for rank, report in reports.items():
        elsewhere = {name for other, names in called.items() if other != rank for name in names} - called[rank]
        for item in report.not_examined:
            if item.what in elsewhere:
                continue
            ranks.setdefault(item.what, []).append(rank)
            first.setdefault(item.what, item)
    leader = next(iter(reports))
    return [
        item if ranks[what][0] == leader else NotExamined(f"{what} ({on_ranks(ranks[what])})", item.why)
        for what, item in first.items()
    ]


def _called(report: Report) -> set[str]:
    calls = {fact.subject for fact in report.of(FunctionCalls) if fact.forward_calls}
    return {subject.name for subject in report.subjects if subject.id in calls}


def _without_a_fix(told: Sequence[Told], leader: int) -> list[NotExamined]:
    rewritten = {rule.rule.code for rule in rules.all_rules() if rule.rule.rewrite}
    places = [one for one in told if one.first != leader and not one.suppressed and one.finding.code in rewritten]
    return [
        NotExamined(
            f"a fix of {one.finding.code} at {one.finding.location}",
            f"fixes are tried on rank {leader} only, where it was not seen",
        )
        for one in places
    ]
