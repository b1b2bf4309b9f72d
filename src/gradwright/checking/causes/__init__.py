"""Why is it wrong? One explanation per file, tried simplest first. A file that defines ``FIT`` is one: no registry."""

from __future__ import annotations

import functools

from gradwright.checking.causes.base import FORMULA, Cause, Fit
from gradwright.checking.causes.case import Case
from gradwright.checking.trial import TimeUp
from gradwright.ground.discovery import defined_in

__all__ = ["FORMULA", "Case", "Cause", "Fit", "all_fits", "fit"]


@functools.cache
def all_fits() -> tuple[Fit, ...]:
    """Every explanation, in order of simplicity."""
    return tuple(sorted(defined_in(__name__, "FIT", Fit), key=lambda one: one.order))


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
