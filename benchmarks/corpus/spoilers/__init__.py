"""Ways to spoil a right Function: one family per file, found by name; every file has its ``SPOILERS``."""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache

from corpus.spoilers.base import Spoiler


@cache
def all_spoilers() -> dict[str, Spoiler]:
    """By name, wrong values first."""
    found: list[Spoiler] = []
    for module in pkgutil.iter_modules(__path__):
        if module.name != "base":
            found += importlib.import_module(f"{__name__}.{module.name}").SPOILERS
    found.sort(key=lambda spoiler: spoiler.kind != "wrong value")
    by_name = {spoiler.name: spoiler for spoiler in found}
    assert len(by_name) == len(found), "two spoilers of one name"
    return by_name
