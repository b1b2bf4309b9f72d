"""The recorded operations that are known, a file per family; ``rule_of`` finds the rule of a node by its name.

NOTE [A rule is a proof]: what `batch` says is used as a proof that samples do not meet, so a rule is written only for
nodes whose backward, as torch ships it, is the transpose of the forward's derivative, sample by sample. A user's
Function is never in the table; neither is a node whose formula depends on more than its inputs say.
"""

from __future__ import annotations

from functools import cache

from gradwright.derivatives.nodes.rule import Jet, Place, Rule
from gradwright.derivatives.nodes.unreadable import is_unreadable
from gradwright.ground.discovery import table_in

__all__ = ["Jet", "Place", "Rule", "rule_of"]


@cache
def _rules() -> dict[str, Rule]:
    return table_in(__name__, "RULES")


def rule_of(name: str) -> Rule | None:
    """The rule of a node by its short name, as ``TanhBackward0``; None where the node is unknown, or where the
    rule reads what this torch does not save."""
    return None if is_unreadable(name) else _rules().get(name)
