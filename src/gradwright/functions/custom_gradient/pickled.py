"""A custom gradient without its compiled parts: how it is pickled."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from gradwright.ground.declared import MARK


def leads_to(subject: Any) -> bool:
    """Does its qualified name, looked up in its module, give the object itself?"""
    found: Any = sys.modules.get(subject.__module__)
    for part in subject.__qualname__.split("."):
        found = getattr(found, part, None)
    return found is subject


def rebuilt(
    kind: Callable[..., Any],
    forward: Callable[..., Any],
    rules: list[tuple[str, Callable[..., Any]]],
    reason: str | None,
) -> Any:
    """``kind(forward)`` with the rules given to it again, by their roles."""
    found = kind(forward)
    for role, function in rules:
        if role.startswith("vjp("):
            found.vjp(role[5:-2])(function)
        else:
            getattr(found, role)(function)
    if reason is not None:
        setattr(found, MARK, reason)
    return found
