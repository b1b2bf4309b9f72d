"""The recorded operations that are known, a file per family; ``rule_of`` finds the rule of a node by its name.

NOTE [A rule is a proof]: what `batch` says is used as a proof that samples do not meet, so a rule is written only for
nodes whose backward, as torch ships it, is the transpose of the forward's derivative, sample by sample. A user's
Function is never in the table; neither is a node whose formula depends on more than its inputs say.
"""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache

from gradwright.derivatives.nodes.rule import Jet, Place, Rule

__all__ = ["Jet", "Place", "Rule", "rule_of"]


@cache
def _rules() -> dict[str, Rule]:
    found: dict[str, Rule] = {}
    for module in pkgutil.iter_modules(__path__):
        family = getattr(importlib.import_module(f"{__name__}.{module.name}"), "RULES", {})
        twice_told = found.keys() & family.keys()
        assert not twice_told, f"two rules for {sorted(twice_told)}"
        found |= family
    return found


def rule_of(name: str) -> Rule | None:
    """The rule of a node by its short name, as ``TanhBackward0``; None where the node is unknown."""
    return _rules().get(name)
