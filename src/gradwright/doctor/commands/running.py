"""Run a script under the doctor and keep the session."""

from __future__ import annotations

import dataclasses
import hashlib
import os
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import click

from gradwright.doctor.commands.several_ranks import run_as_rank
from gradwright.doctor.conduct import Conducted, conduct, save
from gradwright.doctor.ranks.identity import this_rank
from gradwright.doctor.session.model import DOCTOR_FAILED, MISSING, NotExamined

if TYPE_CHECKING:
    from gradwright.doctor.options import Options
    from gradwright.doctor.session.model import Report


def run_and_keep(options: Options, session: Path, *, script_stdout: int | None) -> Conducted | None:
    """The report of a run, with its session in the file ``session``, or elsewhere, told, if that can't be written.

    ``script_stdout`` is where the script's own prints go (``None``: where they belong). That the doctor failed is told.
    Of several ranks one has the report of all; to the others it is ``None``.
    """
    rank = this_rank(os.environ)
    done: Conducted | None
    if rank is None:
        done = conduct(options, script_stdout=script_stdout, progress=sys.stderr)
    else:
        done = run_as_rank(options, rank, session, script_stdout, _keep)
        if done is None:
            return None
    if done.failure is not None:
        gap = NotExamined(MISSING, DOCTOR_FAILED)
        report = dataclasses.replace(done.report, not_examined=(*done.report.not_examined, gap))
        done = Conducted(report, done.failure)
    done = Conducted(done.report, done.failure, _keep(done.report, session))
    if done.failure is not None:
        click.echo(f"gradwright: {DOCTOR_FAILED}; please report this:\n{done.failure}", err=True)
    return done


def _keep(report: Report, path: Path) -> Path:
    """Where it is."""
    try:
        save(report, path)
        return path
    except OSError as error:
        mark = hashlib.sha256(os.fsencode(path)).hexdigest()[:8]  # a rank has two: its own and that of all
        spare = Path(tempfile.gettempdir()) / f"gradwright-session-{os.getpid()}-{mark}.json"
        save(report, spare)
        click.echo(f"gradwright: {path} can't be written ({error}); the session is in {spare}", err=True)
        return spare
