"""Simpler, and the same: each group of rules in a file of its own, each rule with its reason."""

from __future__ import annotations

import importlib
import pkgutil

from gradwright.functions.derive.graph import Graph
from gradwright.functions.derive.simplify.rewriting import Rule, rewrite

__all__ = ["Rule", "all_rules", "simplify"]

ENGINE = "rewriting"


def all_rules() -> list[Rule]:
    """Every rule of every file here, files in alphabetical order."""
    found: list[Rule] = []
    for module in sorted(info.name for info in pkgutil.iter_modules(__path__)):
        if module != ENGINE:
            found += importlib.import_module(f"{__name__}.{module}").RULES
    return found


def simplify(graph: Graph) -> None:
    """Apply the rules until none changes anything, on the forward and the backward alike."""
    rewrite(graph, all_rules())
