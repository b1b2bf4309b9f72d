"""Lookers, a file each: a class derived from ``Looker`` in a file of this folder looks on, and needs no other entry."""

from __future__ import annotations

import importlib
import pkgutil

from gradwright.doctor.observe.looker import Looker


def list_files() -> list[str]:
    """The names of the files that hold lookers, in their order."""
    return sorted(info.name for info in pkgutil.iter_modules(__path__))


def lookers_in(file: str) -> list[type[Looker]]:
    """The lookers of one file. Raises: whatever its import does, where this torch lacks a name that it needs."""
    module = importlib.import_module(f"{__name__}.{file}")
    return [
        kind
        for kind in vars(module).values()
        if isinstance(kind, type) and issubclass(kind, Looker) and kind.__module__ == module.__name__
    ]
