"""An eager twin in torch as the truth: for forwards in NumPy, Triton, C++, in low precision only.

The truth is the twin's value and gradient in float64 at the same rounded inputs. The subject runs in its own dtypes,
and may be off by a few times what the twin itself is off in those (see ``rounded``).
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from gradwright.checking.oracles.formula import Misfit
from gradwright.checking.rounded import cotangents_like
from gradwright.checking.trial import DOUBLE, SINGLE, NotJudgeable, Precision, TimeUp, Trial


def twin_trial(
    twin: Callable[..., Any], subject: Trial, judged: Sequence[int], precision: Precision | None = None
) -> Trial:
    """The twin at the subject's arguments under the subject's cotangents; in float64, or in ``precision``.

    A twin that computes in float32 whatever it is given is taken at that, where the subject is coarser. Cost: 2 calls.
    Raises: Misfit if it raises or does not return the subject's shapes; TimeUp.
    """
    coarse = subject.precision.eps > 2 * SINGLE.eps
    last: Exception | None = None
    for wide in (precision,) if precision is not None else (DOUBLE, SINGLE) if coarse else (DOUBLE,):
        try:
            found = Trial(twin, subject.original, judged, wide, seed=subject.seed, deadline=subject.deadline)
            break
        except TimeUp:
            raise
        except Exception as error:  # the twin is the caller's code
            last = error
    else:
        told = str(last) if isinstance(last, NotJudgeable) else f"{type(last).__name__}: {last}"
        first = next(iter(told.splitlines()), "")
        raise Misfit(
            f"the reference can't be held beside it: {first}\n"
            "  do   a callable of the same inputs in plain torch, which follows its inputs' dtype up to float64"
        ) from last
    shapes = [[list(cotangent.shape) for cotangent in trial.cotangents] for trial in (found, subject)]
    if shapes[0] != shapes[1]:
        raise Misfit(
            f"the reference returns {_told(shapes[0])}, the subject {_told(shapes[1])}\n"
            "  do   a reference with the same outputs in the same order"
        )
    found.cotangents = cotangents_like(found, subject.cotangents)
    return found


def _told(shapes: list[list[int]]) -> str:
    return ", ".join(map(str, shapes)) if shapes else "nothing"


@dataclass(frozen=True)
class Referenced:
    """The twin as the oracle of one input, for ``causes``; ``doubt``: how closely the subject could agree with it."""

    truth: Trial
    index: int
    entries: torch.Tensor
    doubt: float
    exact: bool = True

    def under(self, cotangents: Sequence[torch.Tensor]) -> torch.Tensor:
        return self.truth.gradient(cotangents_like(self.truth, cotangents))[self.index]

    def elsewhere(self, point: Any, index: int) -> Referenced:
        there = copy.copy(self.truth)
        there.original = list(point.trial.original)
        there.cotangents = cotangents_like(self.truth, point.trial.cotangents)
        return Referenced(there, index, self.entries, self.doubt)
