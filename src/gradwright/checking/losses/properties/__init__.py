"""The properties of a loss, one per file. A file in this folder that defines ``PROPERTY`` is one: no registry."""

from __future__ import annotations

import functools
import importlib
import pkgutil

from gradwright.checking.losses.properties.base import Property

__all__ = ["Property", "all_properties"]


@functools.cache
def all_properties() -> tuple[Property, ...]:
    """Every property, in the order of ``Property.number``: roots before what follows from them."""
    found = []
    for module in pkgutil.iter_modules(__path__):
        held = getattr(importlib.import_module(f"{__name__}.{module.name}"), "PROPERTY", None)
        if isinstance(held, Property):
            found.append(held)
    return tuple(sorted(found, key=lambda held: held.number))
