"""Calls, counted: what work costs, whatever else the machine does."""

import sys
from collections.abc import Callable


def count_calls(work: Callable[[], object]) -> int:
    """How many calls of Python functions and of functions in C ``work`` makes.

    >>> count_calls(lambda: [abs(n) for n in range(5)]) - count_calls(lambda: [abs(n) for n in range(3)])
    2
    """
    calls = 0

    def count(frame: object, event: str, argument: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        work()
    finally:
        sys.setprofile(before)
    return calls
