"""What the check room says of a gradient, as facts."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator

from gradwright.checking.verdict import InputVerdict
from gradwright.doctor.session.facts import GradientVerdict


def verdict_facts(
    verdicts: Iterable[InputVerdict], *, subject: str, specimen: str, tried_on: str
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
            **fields,
        )
