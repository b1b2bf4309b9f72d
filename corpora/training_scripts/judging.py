"""What a tool said of a planted script, held against what was planted."""

from __future__ import annotations

from dataclasses import dataclass

from corpora.training_scripts.doctor import Ran, Said
from corpora.training_scripts.plant import Plant

LOUD = ("error", "warning")


@dataclass(frozen=True)
class Verdict:
    """``found``: one of the plant's codes was told; ``loud``: as an error or a warning, not as information alone;
    ``line``: at a right line; ``cause``: there, and with its cause, which most codes name by themselves. ``besides``:
    other codes told loudly."""

    found: bool
    loud: bool
    line: bool
    cause: bool
    besides: tuple[str, ...]


def judged(plant: Plant, ran: Ran) -> Verdict:
    lines = plant.lines()
    hits = [said for said in ran.said if said.code in plant.codes]
    there = [said for said in hits if any(said.line <= line <= said.end_line for line in lines)]
    besides = tuple(sorted({said.code for said in ran.said if said.code not in plant.codes and said.severity in LOUD}))
    loud = any(said.severity in LOUD for said in hits)
    return Verdict(bool(hits), loud, bool(there), any(names_cause(plant, said) for said in there), besides)


def names_cause(plant: Plant, said: Said) -> bool:
    told = f"{said.message} {said.why}".lower()
    return not plant.says or any(word.lower() in told for word in plant.says)
