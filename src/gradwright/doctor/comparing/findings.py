"""What became of each finding."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Iterator, Mapping

from gradwright.doctor.comparing.comparison import FindingChange, Turn
from gradwright.doctor.comparing.matching import Pair, paired
from gradwright.doctor.comparing.subjects import Functions, no_longer_examined
from gradwright.doctor.session.hunks import DoesNotFit, edits_of, path_of
from gradwright.doctor.session.model import Finding, Report

_RANK = {"info": 0, "warning": 1, "error": 2}


def finding_changes(
    old: Report, new: Report, pairs: Iterable[Pair], subjects: Functions, names: Mapping[str, str]
) -> Iterator[FindingChange | None]:
    """One for each pair; ``None`` for a finding that is as it was."""
    remarked = _suppressed(old, new, names)
    for before, after in pairs:
        if before is not None and after is not None:
            yield _kept(before, after)
        elif after is not None:
            yield FindingChange("new", "neutral" if after.severity == "info" else "worse", None, after)
        elif before is not None and id(before) in remarked:
            yield FindingChange("suppressed", "neutral", before, remarked[id(before)])
        elif before is not None and no_longer_examined(before, old, new, subjects):
            yield FindingChange("unexamined", "neutral", before, None, fix_made(before, old, new))
        elif before is not None:
            yield FindingChange("gone", "better", before, None, fix_made(before, old, new))


def _kept(old: Finding, new: Finding) -> FindingChange | None:
    ranks = _RANK[old.severity], _RANK[new.severity]
    if ranks[0] != ranks[1]:
        turn: Turn = "worse" if ranks[1] > ranks[0] else "better"
        return FindingChange("severity", turn, old, new)
    if (old.location.path, old.location.line) != (new.location.path, new.location.line):
        return FindingChange("moved", "neutral", old, new)
    return None if old.subject == new.subject else FindingChange("renamed", "neutral", old, new)


def _suppressed(old: Report, new: Report, names: Mapping[str, str]) -> dict[int, Finding]:
    """Findings of the old session that the new one has, by a remark in the text, among the suppressed; by identity."""
    others = dataclasses.replace(new, findings=new.suppressed)
    return {
        id(before): after for before, after in paired(old, others, names) if before is not None and after is not None
    }


def fix_made(finding: Finding, old: Report, new: Report) -> bool:
    """Whether the text that its fix gives stands in the new session's file, wherever in it, and the old one does not.

    Only for a fix that puts something in: of one that only takes away there is nothing to be found.
    """
    if finding.fix is None:
        return False
    path = path_of(finding.fix.diff) or finding.location.path
    before, after = old.source(path), new.source(path)
    if before is None or after is None or before.sha256 == after.sha256:
        return False
    was, now = (_stripped(source.text) for source in (before, after))
    try:
        edits = edits_of(finding.fix.diff, re.findall(r"[^\n]*\n|[^\n]+", re.sub(r"\r\n?", "\n", before.text)))
    except DoesNotFit:
        return False
    blocks = [_stripped("".join(edit.new)) for edit in edits if "".join(edit.new).strip()]
    return bool(blocks) and all(_count(block, now) > _count(block, was) for block in blocks)


def _stripped(text: str) -> list[str]:
    return [" ".join(line.split()) for line in re.split(r"\r\n|\r|\n", text) if line.strip()]


def _count(block: list[str], lines: list[str]) -> int:
    return sum(lines[at : at + len(block)] == block for at in range(len(lines) - len(block) + 1))
