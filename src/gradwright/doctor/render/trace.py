"""What happened when, for a trace viewer (ui.perfetto.dev, chrome://tracing): the Trace Event Format.

Source: "Trace Event Format", Google, https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU;
the fields are those that ``torch.profiler`` writes as well.
"""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from gradwright.doctor.render.wording import clean, counted
from gradwright.doctor.session.brought import rank_in
from gradwright.doctor.session.facts import Fact, GradientCalls, LossValues, OptimizerSteps, RankRun, Span, Timeline
from gradwright.doctor.session.model import Report
from gradwright.doctor.session.place import Location

Event = dict[str, Any]

NONE_KEPT = "no timeline: the session is not one of a script, or was made by a Gradwright that kept none"
OF_LAUNCHING = "of launching the work on the GPU, not of the work"
_SUFFIX: dict[Span, str] = {"forward": ".forward", "backward": ".backward", "step": ".step", "gradient call": ""}


@dataclass(frozen=True, slots=True)
class _Row:
    """One span; nanoseconds since the script began."""

    whom: str
    span: Span
    start: int
    end: int
    rank: int
    thread: int
    step: int


def render(report: Report, *, width: int = 100, color: bool = False) -> str:
    """A complete event for each span that was kept, an instant event where a finding tells at which step it begins.

    A process is a rank, a row a thread. A session without a timeline is a trace without events, which says so. Cost:
    proportional to the spans.
    """
    rows, unreadable = _rows(report)
    dropped = sum(max(0, fact.dropped) for fact in report.of(Timeline))
    events = (*_named(report, rows), *_spans(report, rows), *_moments(report, rows))
    about = _json(_about(report, rows, dropped, unreadable))
    lines = ",\n".join(map(_json, events))
    return f'{{"displayTimeUnit":"ms","otherData":{about},"traceEvents":[\n{lines}\n]}}\n'


def _json(data: Event) -> str:
    return json.dumps(data, allow_nan=False, ensure_ascii=False, separators=(",", ":"))


def _rows(report: Report) -> tuple[list[_Row], int]:
    """Outer spans before those within them; and how many can't be shown (a session of anybody's may hold anything)."""
    rows, unreadable = [], 0
    rank_of = _ranks(report)
    for fact in report.of(Timeline):
        columns = (fact.whom, fact.spans, fact.starts, fact.seconds, fact.threads, fact.steps)
        spans = list(zip(*columns, strict=False))
        unreadable += max(map(len, columns)) - len(spans)
        rank = rank_of(fact)
        for whom, span, start, seconds, thread, step in spans:
            if math.isfinite(start) and math.isfinite(seconds) and seconds >= 0 and abs(start) + seconds < 1e9:
                first = round(start * 1e9)
                rows.append(_Row(whom, span, first, first + round(seconds * 1e9), rank, thread, step))
            else:
                unreadable += 1
    return sorted(rows, key=lambda row: (row.rank, row.thread, row.start, -row.end)), unreadable


def _ranks(report: Report) -> Callable[[Fact], int]:
    """Whose a fact is: in the session of several ranks those of all but the first say so in their ids."""
    first = next((run.rank for run in report.of(RankRun) if not run.missing), report.script.rank or 0)

    def rank(fact: Fact) -> int:
        said = rank_in(fact.id)
        return first if said is None else said

    return rank


def _named(report: Report, rows: list[_Row]) -> Iterator[Event]:
    """Names of the processes and of their rows."""
    program = clean(report.script.argv[0]) if report.script.argv else "the script"
    ranks = sorted({row.rank for row in rows})
    for rank in ranks:
        several = report.script.rank is not None or any(True for _ in report.of(RankRun))
        told = f"{program}, rank {rank}" if several else program
        yield _meta("process_name", rank, 0, name=told)
        yield _meta("process_sort_index", rank, 0, sort_index=rank)
    for rank, thread in sorted({(row.rank, row.thread) for row in rows}):
        yield _meta("thread_name", rank, thread, name=f"thread {thread}")
        yield _meta("thread_sort_index", rank, thread, sort_index=thread)


def _meta(name: str, pid: int, tid: int, /, **args: object) -> Event:
    return {"name": name, "ph": "M", "pid": pid, "tid": tid, "args": args}


def _spans(report: Report, rows: list[_Row]) -> Iterator[Event]:
    subjects = {subject.id: subject for subject in report.subjects}
    told = _told(report)
    on_gpu = _on_gpu(report)
    for row in rows:
        subject = subjects.get(row.whom)
        args: Event = {"step": row.step}
        if subject is not None:
            args = {"at": _place(subject.location), **args}
        if told[row.whom]:
            args["findings"] = told[row.whom]
        if row.whom in on_gpu:
            args["times"] = OF_LAUNCHING
        yield {
            "name": clean(subject.name if subject is not None else row.whom) + _SUFFIX[row.span],
            "cat": row.span,
            "ph": "X",
            "ts": row.start / 1000,
            "dur": (row.end - row.start) / 1000,
            "pid": row.rank,
            "tid": row.thread,
            "args": args,
        }


def _moments(report: Report, rows: list[_Row]) -> Iterator[Event]:
    """Where a finding begins: at the end of that call, or of that step, of its subject's."""
    # Those that were kept are the first: none is missing in between.
    calls: dict[tuple[int, str], list[_Row]] = defaultdict(list)
    for row in sorted(rows, key=lambda row: row.end):
        calls[row.rank, row.whom].append(row)
    rank_of = _ranks(report)
    begins = {fact.id: ((rank_of(fact), fact.subject), step) for fact, step in _begins(report)}
    for finding in report.findings:
        for evidence in finding.evidence:
            whose, step = begins.get(evidence, ((0, ""), -1))
            if 0 <= step < len(calls[whose]):
                row = calls[whose][step]
                yield {
                    "name": finding.code,
                    "cat": "finding",
                    "ph": "i",
                    "s": "p",  # a line across the process
                    "ts": row.end / 1000,
                    "pid": row.rank,
                    "tid": row.thread,
                    "args": {"message": clean(finding.message), "at": _place(finding.location), "step": step},
                }


def _begins(report: Report) -> Iterator[tuple[Fact, int]]:
    """Facts that hold from one of their subject's calls on, and from which."""
    for steps in report.of(OptimizerSteps):
        if steps.first_stale_step is not None:
            yield steps, steps.first_stale_step
    calls = {(fact.subject, fact.calls) for fact in report.of(GradientCalls)}
    for losses in report.of(LossValues):
        known = [step for step in (losses.first_negative_step, losses.first_nonfinite_step) if step is not None]
        if known and (losses.subject, losses.calls) in calls:  # else some calls were not of a loss
            yield losses, min(known)


def _told(report: Report) -> dict[str, list[str]]:
    """What was found about each subject, in words."""
    named: dict[str, list[str]] = defaultdict(list)
    for subject in report.subjects:
        named[subject.name].append(subject.id)
    about = {fact.id: fact.subject for fact in report.facts}
    told: dict[str, list[str]] = defaultdict(list)
    for finding in report.findings:
        shown = {about.get(evidence) for evidence in finding.evidence}
        namesakes = named[finding.subject]
        for id_ in [one for one in namesakes if one in shown] or namesakes:
            told[id_].append(f"{finding.code} {clean(finding.message)}")
    return told


def _on_gpu(report: Report) -> set[str]:
    """The subjects some of whose inputs lay on a device that works while the script goes on."""
    return {
        specimen.subject
        for specimen in report.specimens
        if any(tensor.device.split(":")[0] not in ("cpu", "meta") for tensor in specimen.tensors)
    }


def _place(at: Location) -> str:
    return clean(str(at))


def _about(report: Report, rows: list[_Row], dropped: int, unreadable: int) -> Event:
    made = report.environment
    about = {
        "gradwright": clean(made.gradwright),
        "python": clean(made.python),
        "torch": clean(made.torch),
        "device": clean(made.device),
        "script": clean(" ".join(report.script.argv)),
        "times": "seconds of wall time since the script began, as microseconds",
        "dropped": dropped,
    }
    if dropped:
        about["note"] = f"the first {counted(len(rows), 'span')} of the run; {dropped:,} more had no room"
    elif not rows:
        about["note"] = NONE_KEPT
    if unreadable:
        about["unreadable"] = unreadable
    return about
