"""What commands that take a session have in common: which one it is, and which of its findings are meant."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING

import click

from gradwright.errors import SessionError, UsageError

if TYPE_CHECKING:
    from gradwright.doctor.session.model import Report

SESSION = click.Path(path_type=Path)


def read(path: Path | None, select: str | None, ignore: str | None) -> Report:
    """The session (the last one, where none is named) with the findings that are meant.

    Raises: UsageError, if it can't be read, or a code is none.
    """
    from gradwright.doctor.session.reading import read_session

    try:
        report = read_session(path or last())
    except SessionError as error:
        raise UsageError(str(error)) from None
    wanted, unwanted = _codes(select), _codes(ignore)
    if not wanted and not unwanted:
        return report
    from gradwright.doctor.mending.choosing import selected

    _are_codes((*wanted, *unwanted), report)
    findings = tuple(selected(report, wanted, unwanted))
    left_out = report.script.not_selected + len(report.findings) - len(findings)
    return dataclasses.replace(
        report, findings=findings, script=dataclasses.replace(report.script, not_selected=left_out)
    )


def last() -> Path:
    """Where ``gradwright diagnose`` keeps its sessions here."""
    from gradwright.doctor import settings

    return settings.load(Path.cwd()).session


def _codes(text: str | None) -> tuple[str, ...]:
    return tuple(part.strip().upper() for part in (text or "").split(",") if part.strip())


def _are_codes(beginnings: tuple[str, ...], report: Report) -> None:
    """A gate that looks for a mistyped code never closes."""
    from gradwright.doctor.rules import all_rules

    known = {rule.rule.code for rule in all_rules()} | {finding.code for finding in report.findings}
    for beginning in beginnings:
        if not any(code.startswith(beginning) for code in known):
            raise UsageError(f"no code begins with {beginning}: gradwright rules lists them")
