"""Findings as SARIF's results."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from gradwright.doctor.render.remedies import failures, proof_words, unsafe_words
from gradwright.doctor.render.sarif.fixes import fixes
from gradwright.doctor.render.sarif.places import Files, Json, around, marked, region
from gradwright.doctor.render.sarif.rules import LEVEL
from gradwright.doctor.render.wording import clean, counted
from gradwright.doctor.session.codec import encode
from gradwright.doctor.session.facts import LoopShape, ScriptDied
from gradwright.doctor.session.model import Candidate, Finding, Report
from gradwright.doctor.session.place import Location

# Facts that name a second place, by their ids.
Telling = Mapping[str, LoopShape | ScriptDied]

FINGERPRINT = "gradwright/v1"
_LINK = re.compile(r"(?<!\\)\[(?=[^\[\]]*\]\()")


def results(report: Report, files: Files, rules: list[str]) -> list[Json]:
    """All findings, those too that a comment in the source holds back, by place. ``rules``: codes by their index."""
    ordered = sorted(
        [(finding, False) for finding in report.findings] + [(finding, True) for finding in report.suppressed],
        key=lambda item: (_place(item[0]), item[1]),
    )
    marks = fingerprints((finding for finding, _ in ordered), files)
    index = {code: number for number, code in enumerate(rules)}
    telling: dict[str, LoopShape | ScriptDied] = {fact.id: fact for fact in report.of(LoopShape)}
    telling |= {fact.id: fact for fact in report.of(ScriptDied)}
    made = []
    for (finding, suppressed), mark in zip(ordered, marks, strict=True):
        result = _result(finding, report, files, telling, index[finding.code])
        result["partialFingerprints"] = {FINGERPRINT: mark}
        if report.suppressed:  # SARIF wants it of all results or of none
            result["suppressions"] = [{"kind": "inSource"}] if suppressed else []
        made.append(result)
    return made


def _place(finding: Finding) -> tuple[str, int, int, str, str, str]:
    at = finding.location
    return at.path, at.line, at.column, finding.code, finding.subject, finding.message


def fingerprints(findings: Iterable[Finding], files: Files) -> list[str]:
    """One of each finding, in their order: of its code, its subject, the text that it marks, and which of several it is
    of which all that is the same. Lines put in above change none of them.

    The file counts by its path below the working directory, by its name if it lies elsewhere (another machine has it
    in another place); white space in the text does not count.
    """
    seen: Counter[tuple[str, ...]] = Counter()
    made = []
    for finding in findings:
        at = finding.location
        path = files.relative(at.path) or re.split(r"[\\/]", at.path)[-1]
        key = (finding.code, path, finding.subject, " ".join(marked(at, files.lines(at.path)).split()))
        text = "\0".join([*key, str(seen[key])])
        made.append(hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest())
        seen[key] += 1
    return made


def _result(finding: Finding, report: Report, files: Files, telling: Telling, index: int) -> Json:
    related = [located(at, files, words) for at, words in _related(finding, telling)]
    mended = fixes(finding, report, files)
    return {
        "ruleId": finding.code,
        "ruleIndex": index,
        "level": LEVEL[finding.severity],
        "message": {"text": plain(_words(finding))},
        "locations": [_primary(finding, report, files)],
        **({"relatedLocations": related} if related else {}),
        **({"fixes": mended} if mended else {}),
        "properties": _properties(finding, mended=bool(mended)),
    }


def plain(text: str) -> str:
    r"""Text in which nothing is taken for one of SARIF's links.

    >>> print(plain("grads[i](1) and x[0]"))
    grads\[i](1) and x[0]
    """
    return _LINK.sub(r"\\[", text)


def _words(finding: Finding) -> str:
    """What the terminal says of a finding but for its lines: the message first, for a reader that shows no more."""
    parts = [_sentence(finding.message)]
    parts += [f"Why: {_sentence(finding.why)}"] if finding.why else []
    parts += [f"Do: {_sentence(hint)}" for hint in finding.hints]
    if finding.fix is not None:
        parts.append(_sentence(f"A fix is there, {proof_words(finding.fix.proof)}"))
        parts += [_sentence(unsafe_words(finding.fix).capitalize())] if finding.fix.unsafe else []
    elif _suggested(finding) is not None:
        parts.append("A change is suggested that is not verified: read it before it is used.")
    parts += [_sentence(words[:1].upper() + words[1:]) for words in failures(finding)]
    return "\n".join(parts)


def _sentence(text: str) -> str:
    text = clean(text)
    return text if text.endswith((".", "!", "?")) else f"{text}."


def _primary(finding: Finding, report: Report, files: Files) -> Json:
    """Where it is: what is no file has no place in one, so the script stands for code that was made while it ran."""
    made = located(finding.location, files)
    script = report.script.argv[0] if report.script.argv else ""
    if "physicalLocation" not in made and (artifact := files.location(script)) is not None:
        # GitHub refuses a whole upload in which one result has no place.
        made = {"physicalLocation": {"artifactLocation": artifact}, "message": {"text": plain(str(finding.location))}}
    if finding.subject:
        made["logicalLocations"] = [{"fullyQualifiedName": finding.subject}]
    return made


def located(at: Location, files: Files, words: str = "") -> Json:
    """SARIF's ``location``; empty where there is no such file and nothing to say of it."""
    made: Json = {"message": {"text": words}} if words else {}
    artifact = files.location(at.path)
    if artifact is not None:
        lines = files.lines(at.path)
        place: Json = {"artifactLocation": artifact}
        where, context = region(at, lines), around(at, lines)
        place |= {"region": where} if where else {}
        place |= {"contextRegion": context} if where and context else {}
        made["physicalLocation"] = place
    return made


def _related(finding: Finding, telling: Telling) -> Iterator[tuple[Location, str]]:
    """Other places that the finding rests on: the heaviest expression of its loop, the line at which it showed."""
    for fact in (telling[one] for one in finding.evidence if one in telling):
        at = fact.hot if isinstance(fact, LoopShape) else fact.location
        if at is None or at.line < 1 or at == finding.location:
            continue
        if isinstance(fact, ScriptDied):
            yield at, "it came to light here"
        else:
            yield at, "once per element" if fact.per_element else f"in each of {counted(fact.iterations, 'iteration')}"


def _properties(finding: Finding, *, mended: bool) -> Json:
    """What SARIF has no words for: the proof of a fix, and the diff of one that is not among ``fixes``."""
    made: Json = {"category": finding.category, "name": finding.name}
    if finding.fix is not None:
        made["proof"] = encode(finding.fix.proof)
        made |= {"unsafe": finding.fix.unsafe} if finding.fix.unsafe else {}
        made |= {} if mended else {"diff": finding.fix.diff}
    elif (suggested := _suggested(finding)) is not None:
        made["suggestion"] = suggested.diff
    return made


def _suggested(finding: Finding) -> Candidate | None:
    """The first change that nothing speaks against, and that nobody could try."""
    return next((one for one in finding.candidates if one.counterexample is None), None)
