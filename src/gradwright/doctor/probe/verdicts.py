"""What the check room says of a gradient, as facts."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator

from gradwright.checking.cotangents import with_tried
from gradwright.checking.report import Gathered
from gradwright.checking.verdict import InputVerdict
from gradwright.doctor.session.facts import GradientVerdict

BESIDE_VALUE = "every check but that of the value"
AT_LEVEL_FULL = ("under torch.compile", 'gw.check(..., level="full") does')


def verdict_facts(
    verdicts: Iterable[InputVerdict],
    *,
    subject: str,
    specimen: str,
    tried_on: str,
    untried: tuple[tuple[str, str], ...] = (),
) -> Iterator[GradientVerdict]:
    """One fact per input. The check room's ``index`` and ``name`` become ``input_index`` and ``input_name``."""
    for verdict in verdicts:
        fields = {field.name: getattr(verdict, field.name) for field in dataclasses.fields(verdict)}
        index, name = fields.pop("index"), fields.pop("name")
        fields.pop("details")  # for a reader they stand in the reason
        yield GradientVerdict(
            id=f"verdict {index} {specimen or subject}",
            subject=subject,
            specimen=specimen,
            input_index=index,
            input_name=name,
            tried_on=tried_on,
            untried=untried,
            **fields,
        )


def with_more(fact: GradientVerdict, gathered: Gathered) -> GradientVerdict:
    """The verdict with what other checks on the same specimen saw under further cotangents, and what they left out."""
    mine = [one for one in gathered.tried if one.index == fact.input_index]
    by_reason: dict[str, dict[str, None]] = {}
    for line in gathered.not_checked:
        by_reason.setdefault(line.why, {})[line.what] = None
    untried = [(", ".join(what), why) for why, what in by_reason.items()]
    return dataclasses.replace(
        fact,
        cotangents=with_tried(fact.verdict, fact.oracles, fact.cotangents, mine),
        untried=(*fact.untried, *untried, AT_LEVEL_FULL),
    )


def as_input_verdict(fact: GradientVerdict) -> InputVerdict:
    """The check room's own words for a verdict, but for its details."""
    names = {field.name for field in dataclasses.fields(InputVerdict)} - {"index", "name", "details"}
    fields = {name: getattr(fact, name) for name in names}
    return InputVerdict(index=fact.input_index, name=fact.input_name, **fields)
