"""Why is it wrong? One explanation per file, tried simplest first. A file that defines ``FIT`` is one: no registry."""

from __future__ import annotations

import functools
import importlib
import pkgutil

from gradwright.checking.causes.base import FORMULA, Cause, Fit
from gradwright.checking.causes.case import Case
from gradwright.checking.trial import TimeUp

__all__ = ["FORMULA", "Case", "Cause", "Fit", "all_fits", "fit"]


@functools.cache
def all_fits() -> tuple[Fit, ...]:
    """Every explanation, in order of simplicity."""
    found = []
    for module in pkgutil.iter_modules(__path__):
        one = getattr(importlib.import_module(f"{__name__}.{module.name}"), "FIT", None)
        if isinstance(one, Fit):
            found.append(one)
    return tuple(sorted(found, key=lambda one: one.order))


def fit(case: Case) -> Cause:
    """The first explanation that holds, ``FORMULA`` if none does. Cost: 5 to 100 gradients of the subject.

    Raises: TimeUp. What the subject raises under other cotangents or at other inputs leaves that explanation out.
    """
    for one in all_fits():
        try:
            found = one.fit(case)
        except TimeUp:
            raise
        except Exception:  # the subject is someone else's code; it may refuse what an explanation asks of it
            continue
        if found is not None:
            return found
    return FORMULA
