"""The way of the first NaN: what went in, the operation that made it, what became of it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from gradwright.doctor.render.excerpt import excerpt
from gradwright.doctor.render.page.coloured import CodeLine, Coloured
from gradwright.doctor.render.page.text import place, said
from gradwright.doctor.render.wording import number
from gradwright.doctor.session.facts import NonfiniteBegins
from gradwright.doctor.session.model import Report

_STEPS = 40  # of one path

StepKind = Literal["finite", "begins", "spreads"]


@dataclass(frozen=True, slots=True)
class Step:
    """One stop of the way."""

    kind: StepKind
    what: str
    words: str = ""
    lines: tuple[CodeLine, ...] = ()


@dataclass(frozen=True, slots=True)
class Way:
    title: str
    steps: tuple[Step, ...]
    hints: tuple[str, ...]


def ways(report: Report, coloured: Coloured) -> tuple[Way, ...]:
    return tuple(
        Way(
            title=f"{said(fact.value, 100)} begins in {said(fact.operation, 200)}, {said(fact.phase, 60)}"
            + (f", at {place(fact.location)}" if fact.location else ""),
            steps=tuple(_steps(report, fact, coloured)),
            hints=tuple(said(hint) for hint in fact.hints),
        )
        for fact in report.of(NonfiniteBegins)
    )


def _steps(report: Report, fact: NonfiniteBegins, coloured: Coloured) -> Iterator[Step]:
    at = f" at entry {list(fact.entry)}" if fact.entry else ""
    of = f" of shape {tuple(fact.shape)}" if fact.shape else ""
    for name, value in fact.operands[:_STEPS]:
        yield Step("finite", f"{said(name, 200)} = {number(value)}", f"went in{at}")
    if fact.upstream is not None:
        yield Step("finite", f"gradient {number(fact.upstream)}", f"arrived from above{at}")
    source = report.source(fact.location.path) if fact.location else None
    shown = excerpt(source.text, fact.location) if source is not None and fact.location is not None else ()
    within = "" if fact.function == "<module>" else said(fact.function, 200)
    yield Step(
        "begins",
        f"{said(fact.operation, 200)} gives {said(fact.value, 100)}{at}{of}",
        ". ".join(filter(None, (said(fact.why), f"In {within}" if within else ""))),
        coloured.excerpt(fact.location.path, shown) if fact.location is not None else (),
    )
    for words in fact.then[:_STEPS]:
        yield Step("spreads", said(words))
    if len(fact.then) > _STEPS:
        yield Step("spreads", f"and {len(fact.then) - _STEPS:,} more")
