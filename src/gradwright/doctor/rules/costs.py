"""What the rules on costly expressions share: when a cost is worth a word, and how it is told."""

from __future__ import annotations

from collections.abc import Iterator

from gradwright.doctor.rules.rule import Facts
from gradwright.doctor.session.facts import CostlyExpression

_SHARE_OF_STEP = 0.05
_FEWEST_BYTES = 1 << 20  # below a megabyte it is the dispatch that costs, not the memory


def worth_a_word(facts: Facts, pattern: str, share_of_phase: float = 0.1) -> Iterator[CostlyExpression]:
    """The costs of one pattern that somebody waits for."""
    for cost in facts.of(CostlyExpression):
        heavy = cost.share_of_phase >= share_of_phase and cost.share_of_step >= _SHARE_OF_STEP
        if cost.pattern == pattern and heavy and cost.extra_bytes >= _FEWEST_BYTES:
            yield cost


def times_the_minimum(cost: CostlyExpression) -> str:
    return f"{cost.bytes / cost.minimum_bytes:.1f} times the {size(cost.minimum_bytes)} it must"


def of_the_time(cost: CostlyExpression) -> str:
    return f"{cost.share_of_phase * 100:.0f} % of the {cost.phase}'s time"


def size(count: int) -> str:
    """``4.2 MB``."""
    for unit, factor in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= factor:
            return f"{count / factor:.3g} {unit}"
    return f"{count} bytes"


def duration(seconds: float) -> str:
    """Two digits, in a unit that needs no exponent.

    >>> duration(1.6), duration(0.25), duration(0.0073), duration(41e-6), duration(137.0)
    ('1.6 s', '250 ms', '7.3 ms', '41 us', '137 s')
    """
    unit, amount = "us", seconds * 1e6
    if seconds >= 0.995:
        unit, amount = "s", seconds
    elif seconds >= 0.995e-3:
        unit, amount = "ms", seconds * 1e3
    return f"{float(f'{amount:.2g}'):g} {unit}" if amount < 100 else f"{amount:.0f} {unit}"


def short(text: str) -> str:
    return text if len(text) <= 60 else text[:57] + "..."
