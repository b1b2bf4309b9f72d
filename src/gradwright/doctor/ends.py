"""How a run came to its end, where the patient could not say so itself: killed, replaced, interrupted."""

from __future__ import annotations

import dataclasses
import signal
from pathlib import Path

from gradwright.doctor.session.facts import ScriptKilled
from gradwright.doctor.session.journal import Journal, fold
from gradwright.doctor.session.model import BY_CTRL_C, MISSING, NotExamined, Report

BEFORE_A_GRADIENT = "interrupted before a gradient was seen"


def note_death(journal_path: Path, status: int) -> None:
    """A signal ended the patient: that too is a fact."""
    known = fold(journal_path).script
    with Journal(journal_path) as journal:
        name = signal.Signals(-status).name
        fact = ScriptKilled(id="killed", subject="script", signal=name, steps=known.steps, gradients=known.gradients)
        journal.add(fact)


def with_end(report: Report, status: int, seconds: float, *, interrupted: bool, killed: bool) -> Report:
    """The report of a patient that did not finish. ``status``: of its process; ``killed``: it had been asked to stop;
    ``interrupted``: by whoever sits at the terminal."""
    if report.script.exit_code is not None:
        return _saying(report, MISSING, "the process was ended while it tried the subjects")
    stopped = report.script.stopped_early
    why = "the script replaced or ended its own process"
    if status < 0:
        why = f"the process was ended by {signal.Signals(-status).name} before they could be tried"
        if killed:
            stopped = "it did not stop when asked, so it was killed"
        elif interrupted:
            stopped, why = BY_CTRL_C, "the run was interrupted before they could be tried"
    script = dataclasses.replace(report.script, exit_code=status, seconds=seconds, stopped_early=stopped)
    return _saying(dataclasses.replace(report, script=script), "the values of gradients", why)


def with_interruption(report: Report) -> Report:
    """Interrupted before anything was seen: whatever there is to find, is missing."""
    watched = report.script.steps or report.script.gradients
    if watched or any(item.what == MISSING for item in report.not_examined):
        return report
    return _saying(report, MISSING, BEFORE_A_GRADIENT)


def _saying(report: Report, what: str, why: str) -> Report:
    return dataclasses.replace(report, not_examined=(*report.not_examined, NotExamined(what, why)))
