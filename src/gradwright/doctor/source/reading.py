"""What the text alone says: facts that are read, not observed."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from gradwright.doctor.session.facts import BuiltinAsTensor, DirectForward, Fact, MaskPair, PlainBackward
from gradwright.doctor.session.model import Subject, SubjectKind
from gradwright.doctor.session.place import Location
from gradwright.doctor.source.backwards import plain_backwards
from gradwright.doctor.source.direct_forwards import direct_forwards
from gradwright.doctor.source.files import Columns, SourceFile
from gradwright.doctor.source.masks import mismatched_masks
from gradwright.doctor.source.shadowed import builtins_as_tensors
from gradwright.doctor.source.statements import Placed

T = TypeVar("T")


def read_facts(files: Iterable[SourceFile], relative: Callable[[str], str]) -> tuple[list[Subject], list[Fact]]:
    """Facts about the functions of the user's files, and those functions as subjects.

    ``relative`` makes paths as reports show them. A subject is a ``plain_backward`` if it is written as one, else a
    ``plain_function``. Cost: about 0.1 s per thousand lines. A file too deep for recursion is read in part.
    """
    files = list(files)
    reader = _Reader(relative)
    for file in files:
        reader.columns[file.path] = Columns(file.text)
    for found in _as_far_as_it_goes(plain_backwards(files)):
        subject = reader.subject(found.file, found.placed, "plain_backward")
        reader.facts.append(
            PlainBackward(
                id=f"plain backward {subject}",
                subject=subject,
                parameters=found.parameters,
                references=found.references,
                forward=found.forward,
            )
        )
    for direct in _as_far_as_it_goes(direct_forwards(files)):
        subject = reader.subject(direct.defined_in, direct.placed)
        at = reader.location(direct.file, direct.call)
        reader.facts.append(DirectForward(id=f"direct forward {subject}", subject=subject, location=at))
    for file in files:
        for use in _as_far_as_it_goes(builtins_as_tensors(file)):
            subject = reader.subject(file, use.placed)
            at = reader.location(file, use.node)
            reader.facts.append(
                BuiltinAsTensor(
                    id=f"builtin {at.path}:{at.line}:{at.column}",
                    subject=subject,
                    builtin=use.name,
                    location=at,
                    function=use.placed.qualname.replace("<locals>.", ""),
                )
            )
        for placed, pair in _as_far_as_it_goes(mismatched_masks(file)):
            subject = reader.subject(file, placed)
            at = reader.location(file, pair.node)
            reader.facts.append(
                MaskPair(
                    id=f"masks {at.path}:{at.line}:{at.column}",
                    subject=subject,
                    mask=pair.mask,
                    complement=pair.complement,
                    compared=pair.compared,
                    location=at,
                    function=_name(placed),
                )
            )
    return list(reader.subjects.values()), reader.facts


def _as_far_as_it_goes(facts: Iterator[T]) -> Iterator[T]:
    """What was read before an expression came that is deeper than Python's recursion limit (generated code)."""
    with contextlib.suppress(RecursionError):
        yield from facts


def _name(placed: Placed | None) -> str:
    return placed.qualname.replace("<locals>.", "") if placed else "the script"


class _Reader:
    """Subjects by the place of their function, and the facts about them."""

    def __init__(self, relative: Callable[[str], str]) -> None:
        self.relative = relative
        self.columns: dict[str, Columns] = {}
        self.subjects: dict[tuple[str, int, int], Subject] = {}
        self.facts: list[Fact] = []

    def location(self, file: SourceFile, node: object) -> Location:
        span = self.columns[file.path].span(node)  # type: ignore[arg-type]  # nodes only
        return Location(self.relative(file.path), span.line, span.column, span.end_line, span.end_column)

    def subject(self, file: SourceFile, placed: Placed | None, kind: SubjectKind = "plain_function") -> str:
        """The id of the function's subject, made at its first fact. Its location is the line with its name.

        ``None`` stands for the file's own body, whose location is its first line.
        """
        key = (file.path, placed.node.lineno, placed.node.col_offset) if placed else (file.path, 0, 0)
        if key not in self.subjects:
            line, column = (placed.node.lineno, self.columns[file.path].span(placed.node).column) if placed else (1, 1)
            head = self.columns[file.path].lines[line - 1].rstrip()
            at = Location(self.relative(file.path), line, column, line, len(head) + 1)
            name = _name(placed)
            self.subjects[key] = Subject(id=f"{kind}:{name}@{at}:{at.column}", kind=kind, name=name, location=at)
        return self.subjects[key].id
