"""A report as text, 100 columns wide, and as one HTML fragment: no script, nothing fetched, light or dark page.

Names and messages come from the user's code: in HTML they are escaped, in both what a terminal would obey is shown as
it is written in Python.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from html import escape

from gradwright.checking.report import CheckReport, Finding
from gradwright.checking.verdict import AUTOGRAD, DIFFERENCES, DUAL, EXPECTED, REFERENCE, InputVerdict

WIDTH = 100
_WORD = {"right": "right", "wrong": "WRONG", "surrogate": "surrogate", "unknown": "unknown"}
_TONE = {"right": "good", "wrong": "bad", "surrogate": "doubt", "unknown": "doubt"}
_ORACLE = {AUTOGRAD: "autograd", DUAL: "forward mode", DIFFERENCES: "differences", REFERENCE: "reference",
           EXPECTED: "expect"}  # fmt: skip
_HEADS = ("input", "given", "gradient", "cause", "error", "at", "judged by")
# How far a column may be narrowed where a table is too wide, the one of oracles first.
_LEAST = 12

_STYLE = """
.gradwright { font-size: 13px; line-height: 1.45; color: inherit; max-width: 72em; }
.gradwright p { margin: .4em 0; }
.gradwright table { font: inherit; border-collapse: collapse; margin: .8em 0; background: none; color: inherit; }
.gradwright th, .gradwright td { text-align: left; padding: .15em 1.4em .15em 0; border: 0; background: none; \
vertical-align: top; }
.gradwright th { font-weight: normal; opacity: .65; }
.gradwright section { margin: 1em 0; padding-left: .9em; border-left: 3px solid #868e96; }
.gradwright section.error { border-color: #d6453d; }
.gradwright section.warning { border-color: #c27c0e; }
.gradwright section.info { border-color: #1c8fb5; }
.gradwright dl { margin: .4em 0; display: grid; grid-template-columns: max-content 1fr; column-gap: 1em; }
.gradwright dt { opacity: .65; font-weight: normal; }
.gradwright dd { margin: 0; }
.gradwright pre { margin: .4em 0; padding: 0; overflow-x: auto; font-family: monospace; white-space: pre; \
background: none; color: inherit; }
.gradwright .good { color: #2b9348; }
.gradwright .bad { color: #d6453d; }
.gradwright .doubt { color: #c27c0e; }
.gradwright .quiet { opacity: .65; }
"""


def as_text(report: CheckReport) -> str:
    """The report for a terminal: what was found of each input, the findings, what was looked at and what was not."""
    lines = [plain(headline(report))]
    if report.verdicts:
        lines += ["", *_table([_HEADS, *(_row(report, at) for at in range(len(report.verdicts)))])]
    for verdict in report.verdicts:
        if verdict.verdict in ("right", "surrogate") and verdict.reason:
            lines += _entry(plain(verdict.name), plain(verdict.reason))
    for finding in report.findings:
        lines += ["", f"{finding.code} {plain(finding.name)} ({finding.severity})"]
        for head, text in _details(finding):
            lines += _entry(head, text)
    lines += ["", *_entry("ran", plain(ran(report)))] if report.done else []
    if report.not_checked:
        lines += ["", "not checked"]
    for line in report.not_checked:
        lines += textwrap.wrap(plain(str(line)), WIDTH, initial_indent="  ", subsequent_indent="    ")
    if report.counterexample:
        lines += ["", "counterexample, to be pasted into a file of its own:", "", report.counterexample.rstrip()]
    return "\n".join(lines) + "\n"


def as_html(report: CheckReport) -> str:
    """The report for a notebook: says what the text says, in one ``<div>`` with its own style."""
    parts = [f"<p><b>{_html(headline(report))}</b></p>"]
    if report.verdicts:
        heads = "".join(f"<th>{head}</th>" for head in _HEADS)
        rows = "".join(_html_row(report, at) for at in range(len(report.verdicts)))
        parts.append(f"<table><thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table>")
    for verdict in report.verdicts:
        if verdict.verdict in ("right", "surrogate") and verdict.reason:
            parts.append(f"<p>{_html(verdict.name)}: {_html(verdict.reason)}</p>")
    for finding in report.findings:
        told = "".join(f"<dt>{head}</dt><dd>{_html(text)}</dd>" for head, text in _details(finding))
        head = f"<b>{_html(finding.code)}</b> {_html(finding.name)} ({finding.severity})"
        parts.append(f'<section class="{finding.severity}"><p>{head}</p><dl>{told}</dl></section>')
    if report.done:
        parts.append(f'<p class="quiet">ran: {_html(ran(report))}</p>')
    if report.not_checked:
        lines = "".join(f"<li>{_html(str(line))}</li>" for line in report.not_checked)
        parts.append(f"<p>not checked:</p><ul>{lines}</ul>")
    if report.counterexample:
        code = escape(report.counterexample)
        parts.append(f"<details><summary>counterexample, to be pasted into a file</summary><pre>{code}</pre></details>")
    return f'<div class="gradwright"><style>{_STYLE}</style>{"".join(parts)}</div>'


def headline(report: CheckReport) -> str:
    """The report in one line.

    >>> headline(CheckReport(subject="Halved", level="quick", seed=0))
    'Halved: no fault found (level quick, seed 0)'
    """
    count = sum(1 for finding in report.findings if finding.severity != "info")
    said = "no fault found" if not count else f"{count} fault{'s' if count > 1 else ''} found"
    if not count and any(verdict.verdict == "unknown" for verdict in report.verdicts):
        said += ", not all is known"
    return f"{report.subject}: {said} (level {report.level}, seed {report.seed})"


def ran(report: CheckReport) -> str:
    """The checks that ran, how many calls of the subject they made, how long all took."""
    names = ", ".join(done.check for done in report.done)
    return f"{names}; {sum(done.comparisons for done in report.done)} calls, {report.seconds:.2g} s"


def plain(text: str) -> str:
    """One line of printable characters: a control character is written as Python writes it."""
    return "".join(letter if letter.isprintable() else repr(letter)[1:-1] for letter in text)


# --- pieces ----------------------------------------------------------------------------------------------------------


def _row(report: CheckReport, at: int) -> tuple[str, ...]:
    verdict = report.verdicts[at]
    given = report.given[at] if at < len(report.given) else None
    oracles = ", ".join(_ORACLE.get(oracle, oracle) for oracle in verdict.oracles)
    cells = (
        verdict.name,
        given.what if given is not None else "",
        _WORD[verdict.verdict],
        verdict.cause,
        _error(verdict),
        _at(verdict, given.value if given is not None else ""),
        oracles,
    )
    return tuple(map(plain, cells))


def _error(verdict: InputVerdict) -> str:
    return f"{verdict.error:.2g}" if verdict.verdict in ("right", "wrong") and verdict.error else ""


def _at(verdict: InputVerdict, value: str) -> str:
    """The entry that differs most: "[1, 2] = 0.5"."""
    if verdict.returned is None:
        return ""
    place = str(list(verdict.at)) if verdict.at else "its value"
    return f"{place} = {value}" if value else place


def _table(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Columns side by side, those without content left out, the last ones narrowed where they do not fit."""
    columns = [column for column in zip(*rows, strict=True) if any(column[1:])]
    widths = [max(map(len, column)) for column in columns]
    for narrowed in reversed(range(len(widths))):
        over = sum(widths) + 2 * len(widths) - WIDTH
        if over > 0:
            widths[narrowed] = max(min(widths[narrowed], _LEAST), widths[narrowed] - over)
    for row in zip(*columns, strict=True):
        yield ("  " + "  ".join(_fitted(cell, width) for cell, width in zip(row, widths, strict=True))).rstrip()


def _fitted(cell: str, width: int) -> str:
    return cell.ljust(width) if len(cell) <= width else cell[: width - 1] + "…"


def _entry(head: str, text: str) -> list[str]:
    """``  why    the text``, wrapped under itself."""
    start = f"  {head:<6} " if len(head) <= 6 else f"  {head} "
    wrapped = textwrap.wrap(text, WIDTH, initial_indent=start, subsequent_indent=" " * 9, break_on_hyphens=False)
    return wrapped or [start]


def _details(finding: Finding) -> list[tuple[str, str]]:
    told = [
        ("what", finding.message),
        ("where", str(finding.location or "")),
        ("cause", finding.cause),
        ("why", finding.why),
        ("do", finding.do),
        ("more", f"gradwright explain {finding.code}"),
    ]
    return [(head, plain(text)) for head, text in told if text]


def _html(text: str) -> str:
    return escape(plain(text))


def _html_row(report: CheckReport, at: int) -> str:
    cells = [escape(cell) for cell in _row(report, at)]
    cells[2] = f'<span class="{_TONE[report.verdicts[at].verdict]}">{cells[2]}</span>'
    return "<tr>" + "".join(f"<td>{cell}</td>" for cell in cells) + "</tr>"
