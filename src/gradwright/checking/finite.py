"""A gradient that is not finite: is there a finite derivative at that very point, which it should have been?"""

from __future__ import annotations

import torch

from gradwright.checking.oracles.gateaux import Plane, plane, slope_of_entry
from gradwright.checking.oracles.singular import has_documented_singularities
from gradwright.checking.trial import TimeUp, Trial


def finite_derivative(trial: Trial, index: int, returned: torch.Tensor) -> tuple[int, float] | None:
    """The first entry (flat) of ``returned`` that is NaN or inf, and the derivative that differences find there.

    ``None`` where there is none: at a kink, an infinite slope, a jump, or where torch documents that it has none. Cost:
    12 to 40 calls. Raises: TimeUp.
    """
    entry = int((~torch.isfinite(returned)).nonzero()[0])
    everywhere = torch.arange(returned.numel(), device="cpu")
    generator = torch.Generator().manual_seed(trial.seed + 307)
    try:
        if not isinstance(plane(trial, index, everywhere, generator), Plane):
            return None
        value = slope_of_entry(trial, index, entry)
        return None if value is None or has_documented_singularities(trial) else (entry, value)
    except TimeUp:
        raise
    except Exception:  # the subject is someone else's code, beside a point where it fails already
        return None
