"""The fifteen checks, one per file. A file in this folder that defines ``CHECK`` is a check: there is no registry."""

from __future__ import annotations

import functools
import importlib
import pkgutil

from gradwright.checking.checks.base import Check

__all__ = ["Check", "all_checks"]


@functools.cache
def all_checks() -> tuple[Check, ...]:
    """Every check, in order of value (``Check.number``)."""
    found = []
    for module in pkgutil.iter_modules(__path__):
        check = getattr(importlib.import_module(f"{__name__}.{module.name}"), "CHECK", None)
        if isinstance(check, Check):
            found.append(check)
    return tuple(sorted(found, key=lambda check: check.number))
