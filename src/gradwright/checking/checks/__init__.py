"""The fifteen checks, one per file. A file in this folder that defines ``CHECK`` is a check: there is no registry."""

from __future__ import annotations

import functools

from gradwright.checking.checks.base import Check
from gradwright.ground.discovery import defined_in

__all__ = ["Check", "all_checks"]


@functools.cache
def all_checks() -> tuple[Check, ...]:
    """Every check, in order of value (``Check.number``)."""
    return tuple(sorted(defined_in(__name__, "CHECK", Check), key=lambda check: check.number))
