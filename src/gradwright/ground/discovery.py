"""What the files of a folder define under one name: a check, a cause, a property. There is no registry to forget."""

from __future__ import annotations

import importlib
import pkgutil
from typing import Any, TypeVar

T = TypeVar("T")


def defined_in(package: str, name: str, kind: type[T]) -> list[T]:
    """The ``name`` of every module of ``package`` that defines one of this ``kind``. Cost: imports each once.

    >>> from gradwright.checking.checks.base import Check
    >>> len(defined_in("gradwright.checking.checks", "CHECK", Check))
    15
    """
    modules = pkgutil.iter_modules(importlib.import_module(package).__path__, prefix=f"{package}.")
    found = (getattr(importlib.import_module(module.name), name, None) for module in modules)
    return [one for one in found if isinstance(one, kind)]


def table_in(package: str, name: str) -> dict[str, Any]:
    """The tables called ``name`` of every module of ``package``, as one.  Cost: imports each once.

    Raises: AssertionError where two modules have an entry for the same key.

    >>> "TanhBackward0" in table_in("gradwright.derivatives.nodes", "RULES")
    True
    """
    found: dict[str, Any] = {}
    for table in defined_in(package, name, dict):
        twice_told = found.keys() & table.keys()
        assert not twice_told, f"two entries for {sorted(twice_told)}"
        found |= table
    return found
