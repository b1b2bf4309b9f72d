"""Where parameters meet the batch, a file per family; ``boundary_of`` finds the rule of a node by its name.

A rule is a proof, as in ``nodes``: it is written only for nodes of torch's own, from the operation's mathematics.
"""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache

from gradwright.derivatives.per_sample.boundary.rule import Boundary, Make

__all__ = ["Boundary", "Make", "boundary_of"]


@cache
def _rules() -> dict[str, Boundary]:
    found: dict[str, Boundary] = {}
    for module in pkgutil.iter_modules(__path__):
        family = getattr(importlib.import_module(f"{__name__}.{module.name}"), "BOUNDARIES", {})
        twice_told = found.keys() & family.keys()
        assert not twice_told, f"two rules for {sorted(twice_told)}"
        found |= family
    return found


def boundary_of(name: str) -> Boundary | None:
    """The rule of a node by its short name, as ``AddmmBackward0``; None where there is none."""
    return _rules().get(name)
