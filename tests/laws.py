"""Laws of a table: each holds for every case of it, and one test a case asks all of them.

    laws = Laws[Case]()

    @laws
    def strides_make_no_difference(case: Case) -> None: ...

    @laws.where(lambda case: case.order >= 2)
    def second_derivatives_are_right(case: Case) -> None: ...

    @pytest.mark.parametrize("case", CASES, ids=str)
    def test_every_law_holds(case: Case) -> None:
        laws.hold(case)

Every law runs, also after one that is broken; the message names each broken law with its assertion.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

import pytest

Case = TypeVar("Case")
Law = Callable[[Case], None]


class LawsBroken(AssertionError):
    """Laws that do not hold for a case."""


def _always(case: object) -> bool:
    return True


@dataclass
class Laws(Generic[Case]):
    _laws: list[tuple[Callable[[Case], bool], Law[Case]]] = field(default_factory=list)

    def __call__(self, law: Law[Case]) -> Law[Case]:
        return self.where(_always)(law)

    def where(self, applies: Callable[[Case], bool]) -> Callable[[Law[Case]], Law[Case]]:
        """A law of those cases alone of which ``applies`` is true."""

        def add(law: Law[Case]) -> Law[Case]:
            self._laws.append((applies, law))
            return law

        return add

    def hold(self, case: Case) -> None:
        """Ask every law.

        Raises: LawsBroken, with the name, the message and the line of each law that does not hold.
        """
        broken = []
        for applies, law in self._laws:
            if not applies(case):
                continue
            try:
                law(case)
            except (Exception, pytest.fail.Exception) as error:  # whatever it is: the other laws are asked too
                broken.append(f"{law.__name__}\n{_describe(error)}")
        if broken:
            raise LawsBroken(f"{case}: {len(broken)} of {len(self._laws)} laws are broken\n\n" + "\n\n".join(broken))


def _describe(error: BaseException) -> str:
    """The traceback below ``hold``, the error's message last."""
    lines = traceback.format_exception(type(error), error, error.__traceback__.tb_next if error.__traceback__ else None)
    return "".join(lines).rstrip()
