"""The verdicts on one Function, each with the specimen that it was found on."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from gradwright.doctor.observed import FunctionUse, Kept
from gradwright.doctor.probe.shrink import elements
from gradwright.doctor.session.facts import Fact, GradientVerdict
from gradwright.doctor.session.model import NotExamined


@dataclass
class Judged:
    """The verdicts on a Function, each with the specimen and the arguments that it was found on."""

    use: FunctionUse
    found: list[tuple[GradientVerdict, Kept, tuple[Any, ...]]] = field(default_factory=list)

    def seen(
        self, kept: Kept, args: tuple[Any, ...], facts: Iterable[Fact | NotExamined]
    ) -> Iterator[Fact | NotExamined]:
        """The facts as they come; of the verdicts among them a note is made."""
        for fact in facts:
            if isinstance(fact, GradientVerdict):
                self.found.append((fact, kept, args))
            yield fact

    def on(self, kept: Kept) -> list[GradientVerdict]:
        return [fact for fact, specimen, _ in self.found if specimen is kept]

    def all_right(self) -> bool:
        """Whether there are verdicts, and no other than right."""
        return bool(self.found) and all(fact.verdict == "right" for fact, _, _ in self.found)

    def smallest(self, kept: Kept, args: tuple[Any, ...]) -> tuple[Kept, tuple[Any, ...]]:
        """The specimen with the fewest elements, and its arguments; these where none was judged."""
        tried = ((specimen, values) for _, specimen, values in self.found)
        return min(tried, key=lambda pair: elements(pair[1]), default=(kept, args))

    def wrong(self) -> Iterator[tuple[GradientVerdict, Kept, tuple[Any, ...]]]:
        """Each input whose gradient is wrong, on the smallest specimen that it is wrong on."""
        smallest: dict[int, tuple[GradientVerdict, Kept, tuple[Any, ...]]] = {}
        for one in self.found:
            index = one[0].input_index
            known = smallest.get(index)
            if one[0].verdict == "wrong" and (known is None or elements(one[2]) < elements(known[2])):
                smallest[index] = one
        yield from (smallest[index] for index in sorted(smallest))
