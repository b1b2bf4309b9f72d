"""Fixes of one file become one new text: those that can go together; the others are left for the next time."""

from __future__ import annotations

import dataclasses
import itertools
import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from gradwright.doctor.mending.choosing import Offer, Target, offers_in
from gradwright.doctor.mending.files import NotWritable
from gradwright.doctor.mending.together import Change, change_of, share_code, why_not_together
from gradwright.doctor.session.hunks import Edit
from gradwright.doctor.session.model import Finding, Report

_SEVERITY = {"error": 0, "warning": 1, "info": 1}


@dataclass(frozen=True, slots=True)
class MendedFile:
    """A file's old and new bytes. ``untried``: the subjects in which several fixes meet that were tried one by one."""

    path: str
    real: Path
    old: bytes
    new: bytes
    offers: tuple[Offer, ...]
    untried: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Plan:
    """Every fix, in the report's order, and what the files become with those that are not left out."""

    offers: tuple[Offer, ...]
    files: tuple[MendedFile, ...]


def plan(findings: Sequence[Finding], report: Report, *, here: Path, unsafe: bool, outside: bool) -> Plan:
    """What there is to do in the working directory ``here``. Writes nothing.

    ``unsafe`` takes fixes that do something else at some inputs too, ``outside`` files that do not lie below ``here``.
    """
    by_file: dict[Path, tuple[Target, list[tuple[int, Offer]]]] = {}
    offers: list[Offer] = []
    for offer, target in offers_in(findings, report, here=here, outside=outside):
        if not offer.left and offer.fix.unsafe and not unsafe:
            offer = offer.leaving("it is unsafe; --unsafe lets it be made")
        offers.append(offer)
        if target is not None and not offer.left:
            by_file.setdefault(target.real, (target, []))[1].append((len(offers) - 1, offer))
    files = []
    for target, wanted in by_file.values():
        mended, left = _combined(target, [offer for _, offer in wanted])
        for (at, _), why in zip(wanted, left, strict=True):
            offers[at] = offers[at].leaving(why)
        if mended is not None:
            files.append(mended)
    return Plan(tuple(offers), tuple(files))


def _rank(offer: Offer) -> tuple[int, float]:
    """Errors first, then what saves most."""
    proof = offer.fix.proof
    saving = (proof.before_seconds or 0.0) - (proof.after_seconds or 0.0)
    return _SEVERITY[offer.finding.severity], -saving if math.isfinite(saving) else 0.0


def _combined(target: Target, offers: Sequence[Offer]) -> tuple[MendedFile | None, list[str]]:
    """The file with all fixes that go together, and for each fix why it is left out ("" if it is not)."""
    left = [""] * len(offers)
    taken: list[tuple[int, Change]] = []
    lines = target.text.plain
    new = target.data
    for at in sorted(range(len(offers)), key=lambda at: _rank(offers[at])):
        try:
            change = change_of(offers[at].edits, lines)
            met = ((offers[other], why_not_together(change, seen)) for other, seen in taken)
            clash = next(((other, why) for other, why in met if why), None)
            if clash is not None:
                left[at] = _overlapping(*clash)
                continue
            edits = merged([*(seen.edits for _, seen in taken), change.edits])
            new_bytes = target.text.with_edits(edits)
            _check(new_bytes, target.path)
        except NotWritable as error:
            left[at] = f"{target.path} is left as it is: {error}"
        except (SyntaxError, ValueError) as error:
            left[at] = f"{target.path} would be no Python with it: {error}"
        else:
            taken.append((at, change))
            new = new_bytes
    if not taken:
        return None, left
    made = tuple(offers[at] for at, _ in sorted(taken, key=lambda item: item[0]))
    mended = MendedFile(target.path, target.real, target.data, new, made, _untried(offers, taken))
    return mended, left


def _check(data: bytes, path: str) -> None:
    """Raises: SyntaxError or ValueError, as Python would for these bytes."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        compile(data, path, "exec", dont_inherit=True)


def _overlapping(other: Offer, why: str) -> str:
    return (
        f"it overlaps with {other.finding.code} {other.finding.location} ({why}), which is made first; "
        "run gradwright fix again after that"
    )


def _untried(offers: Sequence[Offer], taken: Sequence[tuple[int, Change]]) -> tuple[str, ...]:
    """The subjects, in order, whose fixes meet in one function or class."""
    names: dict[str, None] = {}
    for index, (at, change) in enumerate(taken):
        for other, seen in taken[:index]:
            if change.edits != seen.edits and share_code(change, seen):
                names.update(dict.fromkeys((offers[other].finding.subject, offers[at].finding.subject)))
    return tuple(names)


def merged(fixes: Sequence[Sequence[Edit]]) -> list[Edit]:
    """The edits of all fixes, the better fix first: the same one once, an import once where several are put in.

    >>> torch, both = Edit(2, 2, ("import torch\\n",)), Edit(2, 2, ("import torch\\n", "import math\\n"))
    >>> merged([[torch], [both], [torch]])
    [Edit(first=2, last=2, new=('import torch\\n',)), Edit(first=2, last=2, new=('import math\\n',))]
    """
    made: list[Edit] = []
    for edit in (edit for edits in fixes for edit in edits):
        if edit in made:
            continue
        if edit.first == edit.last:
            there = {line for other in made if other.first == other.last == edit.first for line in _imports(other)}
            rest = [line for line in edit.new if line not in there]
            if len(rest) < len(edit.new):
                rest = list(itertools.dropwhile(lambda line: not line.strip(), rest))
            if not rest:
                continue
            edit = dataclasses.replace(edit, new=tuple(rest))
        made.append(edit)
    return made


def _imports(edit: Edit) -> set[str]:
    return {line for line in edit.new if line.startswith(("import ", "from ")) and line.rstrip()[-1:] not in "\\("}
