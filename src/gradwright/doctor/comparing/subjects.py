"""Which Function of the new session is which of the old one, under another name too; which one a finding is about."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable

from gradwright.doctor.comparing.matching import Pair
from gradwright.doctor.render.wording import uncalled
from gradwright.doctor.session.facts import GradientVerdict
from gradwright.doctor.session.model import MISSING, Finding, Report, Subject

Functions = tuple[tuple[Subject | None, Subject | None], ...]


def functions(old: Report, new: Report, findings: Iterable[Pair]) -> Functions:
    """The Functions and callables of both: paired by name and file, then by a name that only one on either side has;
    what is left was renamed if its text is the same one, or its findings are."""
    left, right = _by_place(old), _by_place(new)
    pairs = [(left.pop(key), right.pop(key)) for key in list(left) if key in right]
    befores, afters = list(left.values()), list(right.values())
    met = _met(old, new, findings)
    stages: tuple[Callable[[Subject, bool], Hashable], ...] = (
        lambda subject, is_old: subject.name,
        lambda subject, is_old: _text(old if is_old else new, subject),
        lambda subject, is_old: subject.id if is_old else met.get(subject.id),
    )
    for stage in stages:
        if not (befores and afters):
            break
        found = _only_ones([(stage(one, True), one) for one in befores], [(stage(one, False), one) for one in afters])
        pairs += found
        used = {id(one) for pair in found for one in pair}
        befores, afters = ([one for one in side if id(one) not in used] for side in (befores, afters))
    return (*pairs, *((one, None) for one in befores), *((None, one) for one in afters))


def renames(old: Report, new: Report) -> dict[str, str]:
    """The new names, by the old ones, of Functions whose text is the same."""
    pairs = [(one.name.rpartition(".")[2], other.name.rpartition(".")[2]) for one, other in _both(old, new)]
    return {before: after for before, after in pairs if before != after and before.isidentifier()}


def _both(old: Report, new: Report) -> list[tuple[Subject, Subject]]:
    return [(one, other) for one, other in functions(old, new, ()) if one is not None and other is not None]


def _by_place(report: Report) -> dict[tuple[str, str, int], Subject]:
    found: dict[tuple[str, str, int], Subject] = {}
    seen: dict[tuple[str, str], int] = defaultdict(int)
    for subject in sorted(report.subjects, key=lambda one: one.location.line):
        if subject.kind in ("function", "callable"):
            key = subject.name, subject.location.path
            found[(*key, seen[key])] = subject
            seen[key] += 1
    return found


def _only_ones(
    left: list[tuple[Hashable, Subject]], right: list[tuple[Hashable, Subject]]
) -> list[tuple[Subject, Subject]]:
    """Those that have a key to themselves on either side; ``None`` and "" are no keys."""
    keyed: dict[Hashable, tuple[list[Subject], list[Subject]]] = defaultdict(lambda: ([], []))
    for side, entries in enumerate((left, right)):
        for key, subject in entries:
            if key:
                keyed[key][side].append(subject)
    return [(befores[0], afters[0]) for befores, afters in keyed.values() if len(befores) == len(afters) == 1]


def _met(old: Report, new: Report, findings: Iterable[Pair]) -> dict[str, str]:
    """The id in the old session of a subject of the new one, by the findings that both have, if these agree."""
    met: dict[str, set[str]] = defaultdict(set)
    for before, after in findings:
        if before is not None and after is not None:
            befores, afters = subjects_of(before, old), subjects_of(after, new)
            if len(befores) == len(afters) == 1:
                met[afters[0].id].add(befores[0].id)
    return {id_: next(iter(others)) for id_, others in met.items() if len(others) == 1}


def subjects_of(finding: Finding, report: Report) -> list[Subject]:
    """What its facts are about."""
    cited = set(finding.evidence)
    ids = dict.fromkeys(fact.subject for fact in report.facts if fact.id in cited)
    return [subject for subject in report.subjects if subject.id in ids]


def _text(report: Report, subject: Subject) -> str:
    """Of its definition, without its name, layout and remarks; "" where it is not known."""
    source, name = report.source(subject.location.path), subject.name.rpartition(".")[2]
    if source is None or not name.isidentifier():
        return ""
    try:
        for node in ast.walk(ast.parse(source.text)):
            if not isinstance(node, (ast.ClassDef, ast.FunctionDef)) or node.name != name:
                continue
            first = min(node.lineno, *(one.lineno for one in node.decorator_list), node.body[0].lineno)
            if first <= subject.location.line <= (node.end_lineno or node.lineno):
                return re.sub(rf"\b{re.escape(name)}\b", "_", ast.unparse(node))
    except (SyntaxError, ValueError, RecursionError, MemoryError):  # whatever a session holds as text
        return ""
    return ""


def no_longer_examined(finding: Finding, old: Report, new: Report, pairs: Functions) -> bool:
    """Whether the new session can't know of it: what it is about was not called there, or has no verdict any more, or
    is not there and the run was cut short."""
    about = subjects_of(finding, old)
    after = {before.id: now for before, now in pairs if before is not None}
    judged = any(fact.id in finding.evidence for fact in old.of(GradientVerdict))
    return bool(about) and all(_is_unknown(subject, after.get(subject.id), new, judged) for subject in about)


def _is_unknown(before: Subject, after: Subject | None, new: Report, judged: bool) -> bool:
    if before.kind not in ("function", "callable"):
        there = any((one.kind, one.name) == (before.kind, before.name) for one in new.subjects)
        return not there and _was_cut_short(new)
    if after is None:
        return _was_cut_short(new) or still_stands(before, new) is not None
    return uncalled(new, after) or (judged and not any(True for _ in new.of(GradientVerdict, after.id)))


def still_stands(subject: Subject, report: Report) -> str | None:
    """The file in which its definition is read."""
    name = subject.name.rpartition(".")[2]
    stands = re.compile(rf"^\s*(?:class|def)\s+{re.escape(name)}\b", re.MULTILINE)
    return next((source.path for source in report.sources if stands.search(source.text)), None)


def _was_cut_short(report: Report) -> bool:
    script = report.script
    return (
        script.exception is not None
        or script.stopped_early is not None
        or (script.exit_code or 0) < 0
        or bool(report.unwatched)
        or any(item.what == MISSING for item in report.not_examined)
    )


def watched(report: Report) -> bool:
    """Whether anything that Gradwright judges took place while it watched."""
    if report.script.gradients or report.script.steps or any(True for _ in report.of(GradientVerdict)):
        return True
    return any(subject.kind != "script" and not uncalled(report, subject) for subject in report.subjects)
