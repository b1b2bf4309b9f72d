"""A card per Function: what it computes, how far its gradient is off under each cotangent, what was not tried."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from gradwright.doctor.render.page.accuracy import accuracy
from gradwright.doctor.render.page.coloured import Coloured
from gradwright.doctor.render.page.figures import Figure, Table, table
from gradwright.doctor.render.page.findings import Told
from gradwright.doctor.render.page.text import place, program, said
from gradwright.doctor.render.view import Row, View
from gradwright.doctor.render.wording import clean, counted, listed, percent, seconds, size
from gradwright.doctor.session.facts import (
    Counterexample,
    Fact,
    FunctionCalls,
    FunctionFormula,
    GradientVerdict,
)
from gradwright.doctor.session.model import Report, Specimen, Subject


@dataclass(frozen=True, slots=True)
class Program:
    """Text to copy, and what it was made from."""

    text: Markup
    tried_on: str


@dataclass(frozen=True, slots=True)
class Formula:
    """What a forward computes, and pairs of an input and the formula of its gradient."""

    forward: Markup
    gradients: tuple[tuple[str, Markup], ...]
    tried_on: str


@dataclass(frozen=True, slots=True)
class FunctionCard:
    """``errors`` has a row per input and specimen, ``figure`` the same on a log scale beside what was allowed."""

    anchor: str
    row: Row
    where: str
    library: bool
    numbers: tuple[tuple[str, str], ...]
    formulas: tuple[Formula, ...]
    signatures: Table | None
    errors: Table | None
    figure: Figure | None
    untried: tuple[tuple[str, str], ...]
    counterexamples: tuple[Program, ...]
    findings: tuple[Told, ...]


def functions(report: Report, seen: View, findings: Sequence[Told], coloured: Coloured) -> tuple[FunctionCard, ...]:
    """Cost: linear in the facts, and one look at what was not examined per Function."""
    facts: dict[str, list[Fact]] = defaultdict(list)
    for fact in report.facts:
        facts[fact.subject].append(fact)
    specimens: dict[str, list[Specimen]] = defaultdict(list)
    for specimen in report.specimens:
        specimens[specimen.subject].append(specimen)
    told: dict[str, list[Told]] = defaultdict(list)
    for finding, one in zip(report.findings, findings, strict=True):
        told[finding.subject].append(one)
    subjects = [subject for subject in report.subjects if subject.kind in ("function", "callable")]
    return tuple(
        _card(report, coloured, at, subject, row, facts[subject.id], specimens[subject.id],
              told[subject.id] + (told[subject.name] if subject.name != subject.id else []))
        for at, (subject, row) in enumerate(zip(subjects, seen.rows, strict=True), 1)
    )  # fmt: skip


def _card(
    report: Report,
    coloured: Coloured,
    at: int,
    subject: Subject,
    row: Row,
    facts: list[Fact],
    specimens: list[Specimen],
    findings: list[Told],
) -> FunctionCard:
    verdicts = [fact for fact in facts if isinstance(fact, GradientVerdict)]
    errors, plot = accuracy(verdicts, row.name)
    return FunctionCard(
        anchor=f"function-{at}",
        row=row,
        where=place(subject.location),
        library=subject.origin == "library",
        numbers=tuple(_numbers(next((fact for fact in facts if isinstance(fact, FunctionCalls)), None))),
        formulas=tuple(_formula(fact, coloured) for fact in facts if isinstance(fact, FunctionFormula)),
        signatures=_signatures(specimens),
        errors=errors,
        figure=plot,
        untried=tuple(_untried(report, subject, verdicts)),
        counterexamples=tuple(
            Program(coloured.program(program(fact.text)), said(fact.tried_on, 300))
            for fact in facts
            if isinstance(fact, Counterexample)
        ),
        findings=tuple(findings),
    )


def _numbers(calls: FunctionCalls | None) -> list[tuple[str, str]]:
    if calls is None:
        return []
    made = [
        ("forward", _calls(calls.forward_calls, calls.forward_seconds)),
        ("backward", _calls(calls.backward_calls, calls.backward_seconds)),
    ]
    if calls.share_of_step:
        made.append(("share of the watched time", percent(calls.share_of_step)))
    if calls.call_site is not None:
        made.append(("first called at", place(calls.call_site)))
    return made


def _calls(count: int, total: float) -> str:
    if not count:
        return "never called"
    each = f", {seconds(total / count)} each" if count > 1 else ""
    return f"{counted(count, 'call')}, {seconds(total)}{each}"


def _formula(fact: FunctionFormula, coloured: Coloured) -> Formula:
    return Formula(
        forward=coloured.program(program(fact.forward, 5_000)),
        gradients=tuple(
            (said(name, 100), coloured.program(program(formula, 5_000))) for name, formula in fact.gradients
        ),
        tried_on=said(fact.tried_on, 300),
    )


def _signatures(specimens: list[Specimen]) -> Table | None:
    if not specimens:
        return None
    rows = [
        (
            f"call {specimen.call}",
            tensor.name,
            tensor.dtype,
            f"({', '.join(map(str, tensor.shape))})",
            f"({', '.join(map(str, tensor.stride))})" if tensor.stride else "-",
            tensor.device,
            "yes" if tensor.requires_grad else "no",
            size(specimen.bytes) if first else "",
        )
        for specimen in specimens
        for first, tensor in ((at == 0, tensor) for at, tensor in enumerate(specimen.tensors))
    ]
    return table(("seen at", "tensor", "dtype", "shape", "strides", "device", "needs a gradient", "kept"), rows, 60)


def _untried(report: Report, subject: Subject, verdicts: list[GradientVerdict]) -> list[tuple[str, str]]:
    """What was left out, and why: checks of a specimen, and what the session says of this Function by name."""
    inputs: dict[tuple[str, str], dict[str, None]] = {}
    for verdict in verdicts:
        for check, why in verdict.untried:
            name = verdict.input_name or f"input {verdict.input_index}"
            inputs.setdefault((said(check, 300), said(why, 600)), {})[said(name, 60)] = None
    made = [(check + f" ({listed(names)})", why) for (check, why), names in inputs.items()]
    named = re.compile(rf"(?<![\w.]){re.escape(subject.name)}(?!\w)") if clean(subject.name) else None
    items = (item for item in report.not_examined if named is not None and named.search(item.what[:2_000]))
    return made + [(said(item.what, 300), said(item.why, 600)) for item in items]
