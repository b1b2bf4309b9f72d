"""Is what the backward reconstructed what the forward had?

An inverse that is wrong, a network that gives something else the second time, and rounding errors that have grown with
depth would each give a wrong gradient without a word. The forward therefore keeps some entries of every half before it
changes ("sampled": 64 of them, spread by the golden ratio, 0.25 kB a step in float32) or all of it ("full": memory
grows with depth again; for tests), and the backward compares.

The error of a step is max |reconstructed - kept| over those entries, relative to the largest of the entries before and
after the step: rounding errors are relative to these.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

import torch
from torch import Tensor

from gradwright.errors import GradientError

Extent = Literal["sampled", "full", "off"]
EXTENTS = ("sampled", "full", "off")

ENTRIES = 64
_GOLDEN = (5**0.5 - 1) / 2
# From one step to the next, errors that grow by rounding grow by less than this.
JUMP = 30.0


def allowed(dtype: torch.dtype) -> float:
    """The error that is let pass unless told otherwise: √eps.

    >>> [float(f"{allowed(dtype):.1e}") for dtype in (torch.float64, torch.float32, torch.bfloat16)]
    [1.5e-08, 0.00035, 0.088]
    """
    return float(torch.finfo(dtype).eps ** 0.5)


@dataclass(frozen=True)
class Sampler:
    """Takes the entries that are compared; the same ones of every half of one size."""

    extent: Extent
    places: dict[tuple[int, torch.device], Tensor] = field(default_factory=dict)

    def table(self, steps: int, x1: Tensor, x2: Tensor) -> Tensor:
        """A row of zeros for each step. One allocation: many small ones that live long would fragment the heap."""
        largest = max(x1.numel(), x2.numel())
        width = {"off": 0, "sampled": min(largest, ENTRIES), "full": largest}[self.extent]
        return x1.new_zeros((steps, width), requires_grad=False)

    def take(self, half: Tensor, row: Tensor) -> None:
        """Copy those entries into the first places of a row."""
        half, count = half.detach(), half.numel()
        if self.extent == "off" or count == 0:
            return
        if self.extent == "full" or count <= ENTRIES:
            row[:count] = half.flatten()
            return
        places = self.places.get((count, half.device))
        if places is None:
            spread = [int(count * (number * _GOLDEN % 1.0)) for number in range(1, ENTRIES + 1)]
            places = self.places[count, half.device] = torch.tensor(spread, device=half.device)
        torch.take(half, places, out=row)


@dataclass(frozen=True)
class Comparison:
    """By step, a row each: entries of the half that changes, as it was before, as reconstructed, and as it became."""

    kept: Tensor
    found: Tensor
    became: Tensor

    @staticmethod
    def with_(kept: Tensor) -> Comparison:
        return Comparison(kept, torch.zeros_like(kept), torch.zeros_like(kept))

    def errors(self) -> list[float]:
        """The error of every step, first step first; infinite where a finite entry is lost. Waits for a GPU, once."""
        if not self.kept.numel():
            return [0.0] * len(self.kept)
        kept, found, became = self.kept, self.found, self.became
        lost = kept.isfinite() | found.isfinite()  # else NaN went in, and NaN came out
        off = (found - kept).abs().nan_to_num(nan=torch.inf).where(lost, 0.0).amax(1)
        size = torch.maximum(kept.abs(), became.abs()).where(kept.isfinite() & became.isfinite(), 0.0).amax(1)
        return [float(error) for error in (off / size).where(off > 0, 0.0).tolist()]

    def require_close(self, names: Sequence[str], tolerance: float | None) -> None:
        """Raises: GradientError, naming the step at which the reconstruction goes wrong."""
        errors = self.errors()
        limit = allowed(self.kept.dtype) if tolerance is None else tolerance
        bad = max((step for step, error in enumerate(errors) if not error <= limit), default=None)
        if bad is None:
            return
        name, before = names[bad], errors[bad + 1] if bad + 1 < len(errors) else 0.0
        if errors[bad] == float("inf"):
            why = f"finite entries became inf or NaN in {name} or after it, and there is no way back from there"
            do = "find the first activation that is not finite, as in any network; smaller steps, or f and g bounded"
        elif errors[bad] <= JUMP * before:
            why = f"rounding errors have grown on the way back, from {errors[-1]:.1e} at {names[-1]}"
            do = "use a wider dtype, fewer steps, or f and g that enlarge less"
        else:
            why = f"{name} gives something else in the backward than in the forward, or its law inverts wrongly"
            do = (
                "let f and g hang on nothing but their input, the tensors that they hold and torch's default "
                "generators; check_inverse='full' compares every entry"
            )
        raise GradientError(
            f"a reversible network lost its activations on the way back: the error is {errors[bad]:.2g} of their size, "
            f"{limit:.2g} is allowed.\n  where  {name}\n  why    {why}\n  do     {do}"
        )
