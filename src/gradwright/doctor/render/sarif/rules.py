"""The rules of a run's findings, and what their pages say."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from gradwright.doctor.render.rule_pages import HEADINGS, body, first_sentence, sections
from gradwright.doctor.render.sarif.places import Json
from gradwright.doctor.session.model import Finding, Severity

# The docstring of a rule by its code, "" of one that is not known: handed in, for this room knows no rule.
RulePages = Callable[[str], str]

LEVEL: dict[Severity, str] = {"error": "error", "warning": "warning", "info": "note"}
_MOST = 1_000  # characters of a description; GitHub takes 1,024


def no_pages(code: str) -> str:
    return ""


def descriptors(findings: Iterable[Finding], pages: RulePages) -> list[Json]:
    """SARIF's ``tool.driver.rules`` in the order of the codes: one of each code that was found."""
    found: dict[str, Finding] = {}
    for finding in findings:
        found.setdefault(finding.code, finding)
    return [_descriptor(found[code], pages(code)) for code in sorted(found)]


def _descriptor(finding: Finding, page: str) -> Json:
    words = finding.name.replace("-", " ")
    more = f"gradwright explain {finding.code} says more."
    made: Json = {
        "id": finding.code,
        "name": finding.name,
        "shortDescription": {"text": _sentence(words[:1].upper() + words[1:])},
        "fullDescription": {"text": _sentence(words[:1].upper() + words[1:])},
        "help": {"text": more},
        "defaultConfiguration": {"level": LEVEL[finding.severity]},
        "properties": {"tags": [finding.category]},
    }
    if page:
        finds = " ".join(sections(page).get(HEADINGS[0], "").replace("``", "`").split())
        made["fullDescription"] = {"text": _sentence(finds if len(finds) <= _MOST else first_sentence(finds)[:_MOST])}
        markdown = f"{body(page)}\n\n`gradwright explain {finding.code}` shows this page in the terminal."
        made["help"] = {"text": f"{page.strip()}\n\n{more}", "markdown": markdown}
    return made


def _sentence(text: str) -> str:
    return text if text.endswith((".", "!", "?")) else f"{text}."
