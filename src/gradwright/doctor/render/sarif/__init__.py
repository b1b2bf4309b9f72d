"""The report as SARIF 2.1.0, which code hosts and editors read. The same session gives the same text in the same place.

Columns are counted in UTF-16 code units, files named below the repository's root. What a fix replaces it replaces in
the very text that it was tried on.
"""

from __future__ import annotations

import json

from gradwright.doctor.render.sarif.invocation import invocation
from gradwright.doctor.render.sarif.places import Files, Json
from gradwright.doctor.render.sarif.results import results
from gradwright.doctor.render.sarif.rules import RulePages, descriptors, no_pages
from gradwright.doctor.session.codec import encode
from gradwright.doctor.session.model import Report

__all__ = ["RulePages", "render"]

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"


def render(report: Report, *, width: int = 100, color: bool = False, pages: RulePages = no_pages) -> str:
    """One log with one run, as JSON that ends in a newline.

    ``pages`` gives the docstring of a rule by its code, which becomes the rule's help. Cost: linear in the report.

    >>> json.loads(render(Report()))["version"]
    '2.1.0'
    """
    log = {"$schema": SCHEMA, "version": "2.1.0", "runs": [_run(report, pages)]}
    text = json.dumps(log, indent=1, ensure_ascii=False, allow_nan=False) + "\n"
    # A lone surrogate is no character: readers of JSON refuse it, escaped or not.
    return text.encode("utf-8", "replace").decode("utf-8")


def _run(report: Report, pages: RulePages) -> Json:
    files = Files(report)
    environment = report.environment
    rules = descriptors((*report.findings, *report.suppressed), pages)
    driver: Json = {"name": "Gradwright", "rules": rules}
    if environment.gradwright:
        driver |= {"version": environment.gradwright, "semanticVersion": environment.gradwright}
    script = files.relative(report.script.argv[0]) if report.script.argv else ""
    return {
        "tool": {"driver": driver},
        # Code hosts keep one set of results for each of these: two scripts do not take one another's place.
        **({"automationDetails": {"id": f"gradwright/{script}/"}} if script else {}),
        "invocations": [invocation(report, files)],
        **({"originalUriBaseIds": files.bases()} if files.cwd else {}),
        "artifacts": files.artifacts(),
        "results": results(report, files, [rule["id"] for rule in rules]),
        "columnKind": "utf16CodeUnits",
        "newlineSequences": ["\r\n", "\n", "\r"],
        "defaultEncoding": "utf-8",
        "defaultSourceLanguage": "python",
        "language": "en-US",
        "properties": {"environment": {name: value for name, value in encode(environment).items() if name != "cwd"}},
    }
