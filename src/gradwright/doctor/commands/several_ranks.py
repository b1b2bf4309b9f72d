"""One rank of several: its own session beside that of all, which the leader of its machine writes."""

from __future__ import annotations

import dataclasses
import os
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from gradwright.doctor.conduct import Conducted, conduct
from gradwright.doctor.ranks.company import Company, interruptions
from gradwright.doctor.ranks.meeting import HandedOver, Meeting
from gradwright.doctor.ranks.merging import Member, merge
from gradwright.doctor.ranks.waiting import others
from gradwright.doctor.session.model import NotExamined

if TYPE_CHECKING:
    from gradwright.doctor.options import Options
    from gradwright.doctor.ranks.identity import Rank
    from gradwright.doctor.session.model import Report

_PATIENCE = 180.0  # beyond what a rank's own limits allow it
_WITHOUT_GRADIENT = 10
_INTERRUPTED = 10.0  # torchrun kills 30 s after Ctrl-C

Keep = Callable[["Report", Path], Path]


def run_as_rank(options: Options, rank: Rank, session: Path, script_stdout: int | None, keep: Keep) -> Conducted | None:
    """Of the leader the report of all ranks on this machine, which goes to ``session``; of the others ``None``: they
    have handed over. ``keep`` writes a report and says where it is."""
    with interruptions() as interrupted, Meeting(rank) as meeting:
        asked = dataclasses.replace(
            options, meeting=str(meeting.folder), agreed=rank.alone_on_one_machine, leads=rank.leads
        )
        own = session.with_name(f"{session.stem}.rank{rank.rank}{session.suffix}")
        if not rank.leads:
            with open(os.devnull, "w", encoding="utf-8") as nowhere:
                meeting.hand_over(_told(asked, rank, meeting, own, script_stdout, keep, nowhere))
            return None
        done = _run(asked, rank, meeting, script_stdout, sys.stderr)
        path = str(keep(done.report, own))
        meeting.hand_over(HandedOver(path, done.failure or ""))
        patience = _INTERRUPTED if interrupted.seen else _patience(options)
        members, failures = others(meeting, patience, _tell)
        merged = merge([Member(rank.rank, done.report, path), *members], rank.world_size)
        merged = _with_other_machines(merged, rank)
        told = "\n".join(filter(None, [done.failure, *failures])) or None
        if rank.rank == 0:
            return Conducted(merged, told)
        _keep_of_another_machine(merged, rank, session, keep)
        return None


def _told(
    options: Options, rank: Rank, meeting: Meeting, own: Path, stdout: int | None, keep: Keep, nowhere: TextIO
) -> HandedOver:
    """Whatever goes wrong here is told by the leader: a process that failed would take all others with it."""
    try:
        done = _run(options, rank, meeting, stdout, nowhere)
        return HandedOver(str(keep(done.report, own)), done.failure or "")
    except Exception:
        return HandedOver("", traceback.format_exc().rstrip())


def _run(options: Options, rank: Rank, meeting: Meeting, script_stdout: int | None, progress: TextIO) -> Conducted:
    company = Company(rank, meeting)
    done = conduct(options, script_stdout=script_stdout, progress=progress, company=company)
    report = dataclasses.replace(done.report, script=dataclasses.replace(done.report.script, rank=rank.rank))
    return Conducted(report, done.failure)


def _patience(options: Options) -> float | None:
    """How long a rank that is still at work is waited for: what its own limits allow; without end if it has none."""
    if options.to_end:
        return None
    return _WITHOUT_GRADIENT * options.max_seconds + options.probe_seconds + options.fix_seconds + _PATIENCE


def _tell(words: str) -> None:
    sys.stderr.write(f"gradwright: {words}\n")
    sys.stderr.flush()


def _with_other_machines(report: Report, rank: Rank) -> Report:
    if rank.alone_on_one_machine:
        return report
    first, last = rank.here[0], rank.here[-1]
    here = str(first) if first == last else f"{first} to {last}"
    what = f"the ranks other than {here}, of {rank.world_size}"
    why = "they run on other machines, each of which keeps the session of its own ranks"
    return dataclasses.replace(report, not_examined=(*report.not_examined, NotExamined(what, why)))


def _keep_of_another_machine(report: Report, rank: Rank, session: Path, keep: Keep) -> None:
    """Rank 0 tells the report of its machine; the session of this one lies beside where that one's lies."""
    keep(report, session.with_name(f"{session.stem}.node{rank.node}{session.suffix}"))
