"""Which finding of the new session is which of the old one.

Lines move when text is put in above them, so a line's number says little: the two texts are laid beside each other, and
what stands on a line says more. Findings are paired in stages, from the closest likeness to the loosest, each finding
once; those of one key pair in their order.
"""

from __future__ import annotations

import dataclasses
import difflib
import re
from collections import defaultdict, deque
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping

from gradwright.doctor.session.model import Finding, Report

SIMILAR = 0.6  # of a line that was edited, to be taken for the one that it was

Pair = tuple[Finding | None, Finding | None]
Keyed = tuple[Hashable, Finding]
Key = Callable[[Finding, "Texts"], tuple[Hashable, ...]]


class Texts:
    """The text of the lines that findings of one session stand on, without regard to blanks."""

    def __init__(self, report: Report) -> None:
        self._report = report
        self._lines: dict[str, list[str]] = {}

    def lines(self, path: str) -> list[str]:
        """None, where the session does not hold the file."""
        if path not in self._lines:
            source = self._report.source(path)
            texts = re.split(r"\r\n|\r|\n", source.text) if source else []
            self._lines[path] = [" ".join(text.split()) for text in texts]
        return self._lines[path]

    def line(self, finding: Finding) -> str:
        """The line, "" where it is not known."""
        lines, number = self.lines(finding.location.path), finding.location.line
        return lines[number - 1] if 0 < number <= len(lines) else ""


class Beside:
    """Two sessions' texts beside each other: where does a line of the old one stand in the new one?"""

    def __init__(self, before: Texts, after: Texts) -> None:
        self._before, self._after = before, after
        self._landings: dict[str, dict[int, int]] = {}

    def landing(self, finding: Finding) -> int | None:
        """Of a finding of the old session. ``None``, where its line was changed, or the file is not there."""
        path = finding.location.path
        if path not in self._landings:
            old, new = self._before.lines(path), self._after.lines(path)
            self._landings[path] = {
                block.a + at + 1: block.b + at + 1
                for block in difflib.SequenceMatcher(None, old, new).get_matching_blocks()
                for at in range(block.size)
            }
        return self._landings[path].get(finding.location.line)


def paired(old: Report, new: Report, names: Mapping[str, str]) -> Iterator[Pair]:
    """Every finding of both sessions, alone or with its other half. ``names``: new ones by old ones, where the user
    renamed something.

    Cost: one comparison of each file's lines (difflib's), and linear in the findings, but for those of one code,
    subject and file whose lines were edited.
    """
    named = _in_new_names(old, names)
    originals = {id(one): original for one, original in zip(named.findings, old.findings, strict=True)}
    for before, after in _paired(named, new):
        yield (originals[id(before)] if before is not None else None), after


def _in_new_names(report: Report, names: Mapping[str, str]) -> Report:
    if not names:
        return report
    old_name = re.compile(r"\b(?:" + "|".join(map(re.escape, names)) + r")\b")

    def now(text: str) -> str:
        return old_name.sub(lambda match: names[match.group()], text)

    return dataclasses.replace(
        report,
        findings=tuple(
            dataclasses.replace(one, subject=now(one.subject), message=now(one.message)) for one in report.findings
        ),
        sources=tuple(dataclasses.replace(source, text=now(source.text)) for source in report.sources),
    )


def _paired(old: Report, new: Report) -> Iterator[Pair]:
    before, after = Texts(old), Texts(new)
    beside = Beside(before, after)

    def place(finding: Finding, side: Texts) -> tuple[Hashable, ...]:
        line = beside.landing(finding) if side is before else finding.location.line
        # A line that is not in the other text stands for itself: nothing has None there.
        return (finding.code, finding.subject, finding.location.path, line or (side is before, id(finding)))

    def text(finding: Finding, side: Texts) -> str:
        return side.line(finding) or _unnumbered(finding.message)

    def line(finding: Finding, side: Texts) -> tuple[Hashable, ...]:
        return (finding.code, finding.subject, finding.location.path, text(finding, side))

    def other_file(finding: Finding, side: Texts) -> tuple[Hashable, ...]:
        return (finding.code, finding.subject, text(finding, side))

    def other_subject(finding: Finding, side: Texts) -> tuple[Hashable, ...]:
        return (finding.code, finding.location.path, text(finding, side))

    def saying(key: Key) -> Key:
        return lambda finding, side: (*key(finding, side), _unnumbered(finding.message))

    left, right = list(old.findings), list(new.findings)
    for key in (saying(place), place, saying(line), line, other_file, other_subject):
        pairs = _by_key([(key(one, before), one) for one in left], [(key(one, after), one) for one in right])
        yield from pairs
        left, right = _without(left, [one for one, _ in pairs]), _without(right, [one for _, one in pairs])
    pairs = _edited(left, right, before, after)
    yield from pairs
    yield from ((one, None) for one in _without(left, [one for one, _ in pairs]))
    yield from ((None, one) for one in _without(right, [one for _, one in pairs]))


def _by_key(left: list[Keyed], right: list[Keyed]) -> list[tuple[Finding, Finding]]:
    waiting: dict[Hashable, deque[Finding]] = defaultdict(deque)
    for key, one in sorted(right, key=_order):
        waiting[key].append(one)
    return [(one, waiting[key].popleft()) for key, one in sorted(left, key=_order) if waiting[key]]


def _edited(
    left: Iterable[Finding], right: Iterable[Finding], before: Texts, after: Texts
) -> list[tuple[Finding, Finding]]:
    """Those of one code, subject and file whose lines are much alike: the likest first."""
    at: dict[Hashable, list[Finding]] = defaultdict(list)
    for one in right:
        at[(one.code, one.subject, one.location.path)].append(one)
    likely = []
    for number, one in enumerate(left):
        for place, other in enumerate(at[(one.code, one.subject, one.location.path)]):
            lines = before.line(one), after.line(other)
            likeness = difflib.SequenceMatcher(None, *lines, autojunk=False).ratio() if all(lines) else 0.0
            if likeness >= SIMILAR:
                likely.append((-likeness, number, place, one, other))
    pairs: list[tuple[Finding, Finding]] = []
    taken: set[int] = set()
    for _, _, _, one, other in sorted(likely, key=lambda entry: entry[:3]):
        if id(one) not in taken and id(other) not in taken:
            taken |= {id(one), id(other)}
            pairs.append((one, other))
    return pairs


def _without(findings: list[Finding], used: list[Finding]) -> list[Finding]:
    """By identity: two findings of a session may be equal."""
    gone = {id(one) for one in used}
    return [one for one in findings if id(one) not in gone]


def _order(keyed: Keyed) -> tuple[str, int, int]:
    at = keyed[1].location
    return at.path, at.line, at.column


def _unnumbered(message: str) -> str:
    """Without its numbers, which differ from run to run."""
    return re.sub(r"\d[\d,.]*(?:e[+-]?\d+)?", "#", message)
