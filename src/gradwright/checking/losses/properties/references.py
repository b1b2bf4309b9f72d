"""Where does it part from losses that are known? By values and slopes, along each ray.

The caller's ``references`` are what it should be: to part from one is a warning. The usual losses of a regression serve
only to describe a loss in which something was found.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch

from gradwright.checking.losses.case import Case
from gradwright.checking.losses.compare import Comparison, compare
from gradwright.checking.losses.loss import Loss
from gradwright.checking.losses.properties.base import Answer, Property
from gradwright.checking.report import NotChecked

_F = torch.nn.functional
USUAL: Mapping[str, Callable[..., Any]] = {
    "mse_loss": _F.mse_loss,
    "l1_loss": _F.l1_loss,
    "huber_loss": _F.huber_loss,
}  # smooth_l1_loss is huber_loss for the default threshold


def run(case: Case) -> Iterator[Answer]:
    for name, reference in case.references.items():
        comparison = _compared(case, reference)
        if comparison is None:
            yield NotChecked(f"the reference {name}", "it does not take what the loss takes")
        elif not comparison.same:
            yield _parts(case, name, comparison)
    faulty = any(found.severity != "info" and found.code != "GW506" for found, *_ in case.specimens)
    if not case.references and faulty and case.is_regression:
        yield from _described(case)


def _parts(case: Case, name: str, found: Comparison) -> Answer:
    return PROPERTY.finding(
        case,
        "GW508",
        cause="region" if found.agrees else "formula",
        message=f"parts from {name}: {found.in_words(name)}",
        why=found.example,
        severity="warning",
        at=found.samples,
        region=found.region,
    )


def _described(case: Case) -> Iterator[Answer]:
    """The usual loss with which it has most in common, if it agrees with it anywhere."""
    best: tuple[tuple[bool, float], str, Comparison] | None = None
    for name, reference in USUAL.items():
        found = _compared(case, reference)
        if found is None or found.extent <= 0.05:
            continue
        rank = (found.from_zero, found.extent)
        if best is None or rank > best[0]:
            best = (rank, name, found)
    if best is not None and not best[2].throughout:
        _, name, found = best
        yield PROPERTY.finding(
            case,
            "GW508",
            cause="region",
            message=f"looks like {name} in part: {found.in_words(name)}",
            why=found.example,
            severity="info",
            region=found.region,
        )


def _compared(case: Case, reference: Callable[..., Any]) -> Comparison | None:
    loss = Loss(reference, seed=case.seed, deadline=case.loss.deadline, device=case.loss.device)
    loss.dtype = case.loss.dtype
    return compare(case, loss)


PROPERTY = Property(
    15, "compared with references", "standard", {"GW508": "loss-parts-from-reference"}, run, of_kinds=True
)
