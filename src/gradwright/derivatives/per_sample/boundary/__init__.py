"""Where parameters meet the batch, a file per family; ``boundary_of`` finds the rule of a node by its name.

A rule is a proof, as in ``nodes``: it is written only for nodes of torch's own, from the operation's mathematics.
"""

from __future__ import annotations

from functools import cache

from gradwright.derivatives.nodes.unreadable import is_unreadable
from gradwright.derivatives.per_sample.boundary.rule import Boundary, Make
from gradwright.ground.discovery import table_in

__all__ = ["Boundary", "Make", "boundary_of"]


@cache
def _rules() -> dict[str, Boundary]:
    return table_in(__name__, "BOUNDARIES")


def boundary_of(name: str) -> Boundary | None:
    """The rule of a node by its short name, as ``AddmmBackward0``; None where there is none."""
    return None if is_unreadable(name) else _rules().get(name)
