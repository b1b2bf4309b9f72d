"""How to see the same again: commands, versions, and the files as they were."""

from __future__ import annotations

from dataclasses import dataclass

from gradwright.doctor.render.page.figures import Table, table
from gradwright.doctor.render.page.text import place, said
from gradwright.doctor.render.remedies import command_line, how_to_fix, typed
from gradwright.doctor.render.wording import ending, seconds
from gradwright.doctor.session.model import Report

_SUPPRESSED = 200


@dataclass(frozen=True, slots=True)
class Reproduce:
    """``command`` is "" of a session that no script made; ``suppressed`` are findings the user does not want."""

    command: str
    numbers: tuple[tuple[str, str], ...]
    sources: Table | None
    suppressed: Table | None


def reproduce(report: Report) -> Reproduce:
    where = report.environment
    known = {
        "in": where.cwd,
        "gradwright": where.gradwright,
        "torch": where.torch,
        "python": where.python,
        "device": where.device,
        "threads": str(where.threads) if where.threads else "",
        "platform": where.platform,
        "the script": _ended(report),
    }
    sources = [(source.path, source.sha256, f"{source.text.count(chr(10)) + 1:,}") for source in report.sources]
    return Reproduce(
        command=command_line(["gradwright", "diagnose", *typed(report)]) if report.script.argv else "",
        numbers=tuple((what, said(value, 500)) for what, value in known.items() if value),
        sources=table(("file", "sha256", "lines"), sources, 500) if sources else None,
        suppressed=_suppressed(report),
    )


def fix_command(report: Report) -> str:
    """The command alone, "" where there is nothing to fix."""
    return how_to_fix(report).partition(" shows ")[0]


def _ended(report: Report) -> str:
    if not report.script.argv:
        return ""
    took = f"ran {seconds(report.script.seconds)} and " if report.script.seconds > 0 else ""
    return took + ending(report.script)


def _suppressed(report: Report) -> Table | None:
    rows = [(finding.code, place(finding.location), finding.message) for finding in report.suppressed]
    return table(("code", "at", "message"), rows, _SUPPRESSED) if rows else None
