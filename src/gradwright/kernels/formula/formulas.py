"""What a formula is, once read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from gradwright.kernels.formula.expression import Expression


@dataclass(frozen=True, eq=False)
class Formula:
    """A formula of named numbers.

    ``inputs``: in the order of their first appearance in a text, of their place among a function's parameters.
    ``defaults``: the values of inputs that may be left out. ``text``: as its author wrote it.
    """

    inputs: tuple[str, ...]
    output: Expression
    text: str
    defaults: Mapping[str, float] = field(default_factory=dict)
