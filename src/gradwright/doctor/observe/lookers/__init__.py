"""Lookers, a file each: a class derived from ``Looker`` in a file of this folder looks on, and needs no other entry."""

from __future__ import annotations

import functools
import importlib
import pkgutil

from gradwright.doctor.observe.looker import Looker


@functools.cache
def all_lookers() -> tuple[type[Looker], ...]:
    """Every looker, in the order of their files' names."""
    found: list[type[Looker]] = []
    for info in sorted(pkgutil.iter_modules(__path__), key=lambda info: info.name):
        module = importlib.import_module(f"{__name__}.{info.name}")
        found += [
            kind
            for kind in vars(module).values()
            if isinstance(kind, type) and issubclass(kind, Looker) and kind.__module__ == module.__name__
        ]
    return tuple(found)
