"""What the rules on loops share: when a loop over elements is worth a word."""

from __future__ import annotations

from gradwright.doctor.session.facts import LoopShape

_SHARE = 0.05
_ITERATIONS = 32


def is_slow(loop: LoopShape) -> bool:
    return loop.per_element and loop.share_of_step >= _SHARE and loop.iterations >= _ITERATIONS
