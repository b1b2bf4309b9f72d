"""The properties of a loss, one per file. A file in this folder that defines ``PROPERTY`` is one: no registry."""

from __future__ import annotations

import functools

from gradwright.checking.losses.properties.base import Property
from gradwright.ground.discovery import defined_in

__all__ = ["Property", "all_properties"]


@functools.cache
def all_properties() -> tuple[Property, ...]:
    """Every property, in the order of ``Property.number``: roots before what follows from them."""
    return tuple(sorted(defined_in(__name__, "PROPERTY", Property), key=lambda held: held.number))
