"""What a call of the library's loss is tried on, in the place of one that is written out."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from gradwright.doctor.session.facts import KnownLoss
from gradwright.doctor.treatment.cases import Case


def where_it_breaks(case: Case, args: tuple[Any, ...]) -> Iterator[tuple[Any, ...]]:
    """The arguments with predictions at which the loss was seen to be wrong."""
    from gradwright.doctor.probe.losses.sizes import of_size

    for fact in case.evidence:
        if isinstance(fact, KnownLoss) and fact.size:
            place = fact.prediction
            yield (*args[:place], of_size(args[place], fact.size), *args[place + 1 :])


def domain_of(case: Case) -> Callable[[tuple[Any, ...]], tuple[Any, ...]]:
    """What makes arguments such as a loss takes: its target from 0 to 1, which one of bools is as it stands."""
    places = [fact.target for fact in case.evidence if isinstance(fact, KnownLoss) and fact.from_0_to_1]

    def within(args: tuple[Any, ...]) -> tuple[Any, ...]:
        import torch

        return tuple(
            arg.clamp(0, 1) if place in places and arg.dtype is not torch.bool else arg
            for place, arg in enumerate(args)
        )

    return within
