"""Which cotangents a gradient was asked for with, by names for a reader, and how far off it was under each.

Only what the checks ask for anyway is told. What they do not compare with the truth is made comparable by the truth's
linearity: what came back for -g is held, negated, to the truth under g, and so on.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import torch

from gradwright.checking.vectors import largest_apart, largest_entry
from gradwright.checking.verdict import AUTOGRAD, DIFFERENCES, DUAL

RANDOM = "random, of both signs"
OTHER = "random, drawn again"
NEGATED = "random, negated"
ZEROS = "zeros"
TWO_ADDED = "random, two added"
IN_PLACES = "random, zero in places"
SCALED_DOWN = "random, scaled down"
SCALED_UP = "random, scaled up"
AROUND = "random, with another call in between"

Errors = tuple[tuple[str, float], ...]


@dataclass(frozen=True, slots=True)
class Tried:
    """The gradient of input ``index`` under one kind of cotangents: its error relative to the largest entry of what
    the subject itself returns for random ones, and of what autograd through its forward does (None: it has none)."""

    index: int
    cotangents: str
    from_own: float
    from_autograd: float | None


def error_of(found: torch.Tensor, truth: torch.Tensor, size: float) -> float:
    """The largest difference between two flat gradients, in parts of ``size``; infinite where one is not finite."""
    if not size:
        return 0.0 if torch.equal(found, truth) else float("inf")
    error = largest_apart(found, truth) / size
    return error if error == error else float("inf")


def tried_under(
    index: int, name: str, found: torch.Tensor, own: torch.Tensor, autograd: torch.Tensor | None, *, nothing: bool
) -> Tried:
    """``found`` is held to the gradient under random cotangents, or (``nothing``) to zero."""

    def error(truth: torch.Tensor) -> float:
        return error_of(found, torch.zeros_like(truth) if nothing else truth, largest_entry(truth))

    return Tried(index, name, error(own), None if autograd is None else error(autograd))


def with_tried(verdict: str, oracles: Iterable[str], known: Errors, tried: Iterable[Tried]) -> Errors:
    """The errors of a verdict, ``known``, and those of further cotangents of the same call: the worst of each name.

    Held to autograd where that judged. Where it did not, what is right is itself the truth, and of what is wrong
    nothing more is known.
    """
    if not known or not set(oracles) <= {AUTOGRAD, DUAL, DIFFERENCES}:
        return known  # no verdict, or one by a truth that other checks do not know
    errors = dict(known)
    for one in tried:
        own = one.from_own if verdict == "right" else None
        error = one.from_autograd if AUTOGRAD in oracles else own
        if error is not None:
            errors[one.cotangents] = max(error, errors.get(one.cotangents, 0.0))
    return tuple(errors.items())
