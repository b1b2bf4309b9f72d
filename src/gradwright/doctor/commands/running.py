"""Run a script under the doctor and keep the session."""

from __future__ import annotations

import dataclasses
import os
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import click

from gradwright.doctor.conduct import Conducted, conduct, save
from gradwright.doctor.mending.sessions import MISSING
from gradwright.doctor.session.model import NotExamined

if TYPE_CHECKING:
    from gradwright.doctor.options import Options
    from gradwright.doctor.session.model import Report


def run_and_keep(options: Options, session: Path, *, script_stdout: int | None) -> Conducted:
    """The report of a run, with its session in the file ``session``, or elsewhere, told, if that can't be written.

    ``script_stdout`` is where the script's own prints go (``None``: where they belong). That the doctor failed is told.
    """
    done = conduct(options, script_stdout=script_stdout, progress=sys.stderr)
    if done.failure is not None:
        gap = NotExamined(MISSING, "the doctor itself failed")
        report = dataclasses.replace(done.report, not_examined=(*done.report.not_examined, gap))
        done = Conducted(report, done.failure)
    _keep(done.report, session)
    if done.failure is not None:
        click.echo(f"gradwright: the doctor itself failed; please report this:\n{done.failure}", err=True)
    return done


def _keep(report: Report, path: Path) -> None:
    try:
        save(report, path)
    except OSError as error:
        spare = Path(tempfile.gettempdir()) / f"gradwright-session-{os.getpid()}.json"
        save(report, spare)
        click.echo(f"gradwright: {path} can't be written ({error}); the session is in {spare}", err=True)
