"""The report as commands of GitHub's workflows: one annotation a finding, beside its line in a pull request.

GitHub shows ten errors, ten warnings and ten notices of a step, so what is worst comes first.
"""

from __future__ import annotations

import ntpath
import posixpath
import re

from gradwright.doctor.render.excerpt import diff_body
from gradwright.doctor.render.remedies import failures, proof_words, unsafe_words
from gradwright.doctor.render.view import view
from gradwright.doctor.render.wording import UNSHOWABLE, clean
from gradwright.doctor.session.model import Finding, Report, Severity

_COMMAND: dict[Severity, str] = {"error": "error", "warning": "warning", "info": "notice"}
_SHOWN = 10  # annotations of a kind and a step
_DRIVE = re.compile(r"[A-Za-z]:[\\/]")


def render(report: Report, *, width: int = 100, color: bool = False) -> str:
    """A line for each finding, and a notice that sums up, before those that only inform: it is not to be the eleventh.

    Files are named by their absolute paths: the runner makes them relative to the repository wherever in it the script
    was started. Columns are given for what lies on one line; GitHub takes none for more.

    >>> print(render(Report()), end="")
    ::notice title=Gradwright::no custom Functions: nothing wrong was found
    """
    lines = {
        severity: [_annotation(one, report) for one in report.findings if one.severity == severity]
        for severity in _COMMAND
    }
    words = _summary(report, cut=any(len(of_one) > _SHOWN for of_one in lines.values()))
    summary = command("notice", {"title": "Gradwright"}, words)
    return "".join(f"{line}\n" for line in [*lines["error"], *lines["warning"], summary, *lines["info"]])


def _summary(report: Report, *, cut: bool) -> str:
    seen = view(report)
    words = [f"{seen.headline}: {seen.summary}" + (f": {seen.how_to_fix}" if seen.how_to_fix else "")]
    words += [f"GitHub shows {_SHOWN} annotations of a kind; the log has them all"] if cut else []
    words += [f"not examined: {item}" for item in seen.unexamined]
    words += [f"and {seen.unlisted:,} more were not examined"] if seen.unlisted else []
    return "\n".join(words)


def command(name: str, properties: dict[str, str], message: str) -> str:
    r"""One line, whatever stands in it: what is typed as ``%0A`` stays that, a line break becomes it.

    >>> command("error", {"file": "a,b:c.py", "title": "100%"}, "one\n::two")
    '::error file=a%2Cb%3Ac.py,title=100%25::one%0A::two'
    """
    told = ",".join(
        f"{key}={_escaped(value).replace(':', '%3A').replace(',', '%2C')}" for key, value in properties.items()
    )
    return f"::{name} {told}::{_escaped(message)}"


def _escaped(text: str) -> str:
    text = text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")
    return text.encode("utf-8", "replace").decode("utf-8")


def _annotation(finding: Finding, report: Report) -> str:
    at = finding.location
    properties: dict[str, str] = {}
    if at.path and not at.path.startswith("<"):
        properties["file"] = _path(at.path, report.environment.cwd)
        if at.line > 0:
            properties["line"] = str(at.line)
            properties |= _extent(finding)
    properties["title"] = clean(f"{finding.code} {finding.name}")
    return command(_COMMAND[finding.severity], properties, _words(finding))


def _extent(finding: Finding) -> dict[str, str]:
    at = finding.location
    if at.end_line > at.line:
        return {"endLine": str(at.end_line)}
    if at.end_line == at.line and 0 < at.column < at.end_column:
        return {"endLine": str(at.end_line), "col": str(at.column), "endColumn": str(at.end_column)}
    return {}


def _path(path: str, cwd: str) -> str:
    style = ntpath if _DRIVE.match(cwd) else posixpath
    return UNSHOWABLE.sub("\ufffd", style.normpath(style.join(cwd, path)))


def _words(finding: Finding) -> str:
    """The message, why, what to do first, and the fix as it is read: GitHub shows it as plain text."""
    parts = [clean(finding.message)]
    parts += [f"why: {clean(finding.why)}"] if finding.why else []
    parts += [f"do: {clean(hint)}" for hint in finding.hints[:1]]
    if finding.fix is not None:
        parts += [f"{line.sign} {line.text}" for line in diff_body(finding.fix.diff)]
        parts.append(proof_words(finding.fix.proof))
        parts += [unsafe_words(finding.fix)] if finding.fix.unsafe else []
    parts += [*failures(finding), f"more: gradwright explain {clean(finding.code)}"]
    return "\n".join(parts)
