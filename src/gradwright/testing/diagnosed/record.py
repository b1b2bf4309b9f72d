"""Which test runs, and which Functions each test called."""

from __future__ import annotations

import time
from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Any

LISTED_TESTS = 3
# Why a Function was not examined, for which another worker may know better.
ONLY_LEFT_OUT, NO_TEST = "only tests marked no_gradwright call it", "no test called it"


@dataclass
class Test:
    """A test while it runs. ``left_out``: it is marked so; ``raised``: specimens of calls that raised."""

    __test__ = False  # for pytest, which collects classes of such names

    id: str
    left_out: bool
    began: float
    failed: bool = False
    called: set[Hashable] = field(default_factory=set)
    raised: list[Any] = field(default_factory=list)


@dataclass
class Callers:
    """The tests that called one Function: the first few by id, how many in all, how long they took together."""

    first: list[str] = field(default_factory=list)
    count: int = 0
    seconds: float = 0.0


class TestRecord:
    """Tests one after the other; their ids are kept for the first few of each Function, so that memory is bounded."""

    __test__ = False

    def __init__(self) -> None:
        self.current: Test | None = None
        self.callers: dict[Hashable, Callers] = {}
        self.left_out: dict[str, str] = {}  # by the name of a Function: the first marked test that called it
        self.tests = 0

    def began(self, test: str, *, left_out: bool) -> None:
        self.current = Test(test, left_out, time.perf_counter())
        self.tests += 1

    def ended(self) -> list[Any]:
        """Specimens of calls that raised as the test expected: of one that failed there are none."""
        test, self.current = self.current, None
        if test is None:
            return []
        seconds = time.perf_counter() - test.began
        for function in test.called:
            callers = self.callers.setdefault(function, Callers())
            callers.count += 1
            callers.seconds += seconds
            if len(callers.first) < LISTED_TESTS:
                callers.first.append(test.id)
        return [] if test.failed else test.raised

    def called(self, function: Hashable) -> None:
        if self.current is not None:
            self.current.called.add(function)

    def share(self, function: Hashable, seconds: float) -> float:
        """Of the time of the tests that called it; 0 for one that no test called (at import, while collecting)."""
        callers = self.callers.get(function)
        return min(1.0, seconds / callers.seconds) if callers is not None and callers.seconds > 0 else 0.0
