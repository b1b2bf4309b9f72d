"""Findings as the page shows them: the words of every face, and the whole diff with how it was shown to be right."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from gradwright.doctor.render.page.coloured import CodeLine, Coloured
from gradwright.doctor.render.page.text import WIDEST, hundredths, place, program, said, times
from gradwright.doctor.render.view import Card, View
from gradwright.doctor.render.wording import counted, number, seconds, size
from gradwright.doctor.session.model import Finding, Proof, Report

DiffKind = Literal["added", "removed", "head", "same"]
_SIGNS: dict[str, DiffKind] = {"+": "added", "-": "removed", "@": "head"}
_DIFFS = 1_500_000  # characters of whole diffs in one page; the session has all of them


@dataclass(frozen=True, slots=True)
class Gain:
    """What a fix saves, of one kind: ``share`` is what is left, in hundredths."""

    what: str
    before: str
    after: str
    times: str
    share: float


@dataclass(frozen=True, slots=True)
class DiffRow:
    kind: DiffKind
    text: str


@dataclass(frozen=True, slots=True)
class Told:
    """One finding. ``diff`` is that of the fix, or of a suggestion that nothing was tried with."""

    anchor: str
    card: Card
    name: str
    where: str
    lines: tuple[CodeLine, ...]
    diff: tuple[DiffRow, ...]
    left_out: bool
    shown_by: tuple[tuple[str, str], ...]
    gains: tuple[Gain, ...]


@dataclass(frozen=True, slots=True)
class Code:
    """The findings of one code, for the table of contents."""

    code: str
    name: str
    count: int
    first: str


def told(report: Report, seen: View, coloured: Coloured) -> tuple[Told, ...]:
    """One per finding, in the report's order."""
    made, room = [], _DIFFS
    for at, (card, finding) in enumerate(zip(seen.cards, report.findings, strict=True), 1):
        diff = finding.fix.diff if finding.fix else _suggested(finding)
        fits = len(diff) <= room
        room -= len(diff) if fits else 0
        made.append(
            Told(
                anchor=f"finding-{at}",
                card=card,
                name=said(finding.name, 100),
                where=place(finding.location),
                lines=coloured.excerpt(finding.location.path, card.excerpt),
                diff=tuple(_rows(diff)) if fits else (),
                left_out=not fits,
                shown_by=tuple(_shown_by(finding.fix.proof)) if finding.fix else (),
                gains=tuple(gains(finding.fix.proof)) if finding.fix else (),
            )
        )
    return tuple(made)


def codes(findings: Sequence[Told]) -> tuple[Code, ...]:
    counts = Counter(one.card.code for one in findings)
    first = {one.card.code: one for one in reversed(findings)}
    return tuple(Code(said(code, 20), first[code].name, count, first[code].anchor) for code, count in counts.items())


def gains(proof: Proof) -> list[Gain]:
    """Before and after, as far as both were measured."""
    made = []
    if proof.before_seconds is not None and proof.after_seconds is not None:
        made.append(_gain("time", proof.before_seconds, proof.after_seconds, seconds))
    counts = (
        ("operations", proof.before_operations, proof.after_operations, "{:,}".format),
        ("moved", proof.before_moved_bytes, proof.after_moved_bytes, size),
        ("peak memory", proof.before_bytes, proof.after_bytes, size),
    )
    made += [
        _gain(what, before, after, words)
        for what, before, after, words in counts
        if before is not None and after is not None
    ]
    return made


def _gain(what: str, before: float, after: float, words: Callable[[Any], str]) -> Gain:
    return Gain(what, words(before), words(after), times(before, after), hundredths(after, before, 400.0))


def _suggested(finding: Finding) -> str:
    return next((candidate.diff for candidate in finding.candidates if candidate.counterexample is None), "")


def _rows(diff: str) -> list[DiffRow]:
    made, body = [], False
    for line in program(diff, len(diff)).expandtabs(4).rstrip("\n").split("\n") if diff else ():
        body = body or line.startswith("@@")
        kind = _SIGNS.get(line[:1], "same") if body else "head"
        made.append(DiffRow(kind, line if len(line) <= WIDEST else line[:WIDEST] + "…"))
    return made


def _shown_by(proof: Proof) -> list[tuple[str, str]]:
    rows = []
    if proof.verdict == "proved":
        rows.append(("certificate", said(proof.certificate) or "for all shapes"))
    if proof.run:
        rows.append(("tried in", said(proof.run)))
    if proof.exact:
        rows.append(("equal as formulas at", said(", ".join(proof.exact))))
    if proof.on:
        rows.append((f"held on {counted(len(proof.on), 'input')}", said(", ".join(proof.on[:40]))))
    rows.append(("worst difference", f"{number(proof.worst_error)}, allowed {number(proof.tolerance)}"))
    if proof.mutants_tried:
        rejected = f"{proof.mutants_rejected:,} of {proof.mutants_tried:,} rejected by the same trials"
        rows.append(("faulty twins", rejected))
    return rows
