"""Do the losses pull in the same direction? Norms and cosines of their gradients."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch

from gradwright.training.products import gram, squares
from gradwright.training.several.reach import ByLoss, Reach


@dataclass(frozen=True)
class Conflicts:
    """The losses' gradients in one window, each weighted and divided as the update takes it.

    ``norms``: of each loss's gradient, over all that it reaches. ``cosines``: of each pair of losses, over the
    parameters that are shared (reached by two losses or more; a head's own gradient can't be in conflict): -1 opposed,
    0 at right angles, 1 the same direction; NaN where one of them is zero there, or not finite. ``shared``, ``heads``:
    the names of those parameters, and of those that one loss alone reaches.
    """

    norms: Mapping[str, float]
    cosines: Mapping[tuple[str, str], float]
    shared: tuple[str, ...]
    heads: Mapping[str, tuple[str, ...]]

    @property
    def worst(self) -> tuple[tuple[str, str], float] | None:
        """The pair that is most opposed; None where no two losses meet."""
        known = {pair: cosine for pair, cosine in self.cosines.items() if not math.isnan(cosine)}
        pair = min(known, key=known.__getitem__, default=None)
        return None if pair is None else (pair, known[pair])

    def __str__(self) -> str:
        norms = ", ".join(f"{name} {norm:.3g}" for name, norm in self.norms.items())
        cosines = ", ".join(f"{a} and {b} {cosine:+.2f}" for (a, b), cosine in self.cosines.items())
        heads = ", ".join(f"{name} alone {len(names)}" for name, names in self.heads.items() if names)
        told = f"gradient norms: {norms}; cosines over {len(self.shared)} shared parameters: {cosines or 'no pair'}"
        return f"{told}; {heads}" if heads else told


@torch.no_grad()
def conflicts_of(by_loss: ByLoss, names: Sequence[str], *, scale: float = 1.0) -> Conflicts:
    """The norms and the cosines of gradients, given for each loss in the order of ``names`` (of the parameters).

    ``scale``: what the gradients have been multiplied by, all of them.
    Cost: reads the shared gradients once for each pair of losses, the heads' once; one wait for the device. Sharded
    gradients: two all-reduces for each mesh, of losses² numbers and of a number for each head's parameter.

    >>> one = torch.tensor([3.0, 4.0])
    >>> print(conflicts_of({"ce": [one, one], "aux": [-one, None]}, ["trunk", "head"]))
    gradient norms: ce 7.07, aux 5; cosines over 1 shared parameters: ce and aux -1.00; ce alone 1
    """
    reach, losses = Reach.of(by_loss), list(by_loss)
    table = gram([[by_loss[loss][at] for at in reach.shared] for loss in losses]).tolist()
    in_heads = [(loss, one) for loss in losses for at in reach.heads[loss] if (one := by_loss[loss][at]) is not None]
    alone = dict.fromkeys(losses, 0.0)
    for (loss, _), square in zip(in_heads, squares([one for _, one in in_heads]).tolist(), strict=True):
        alone[loss] += square
    norms, cosines = {}, {}
    for i, loss in enumerate(losses):
        norms[loss] = math.sqrt(table[i][i] + alone[loss]) / scale
        for j in range(i if reach.shared else 0):
            cosines[losses[j], loss] = _cosine(table[i][j], table[i][i], table[j][j])
    heads = {loss: tuple(names[at] for at in places) for loss, places in reach.heads.items()}
    return Conflicts(norms, cosines, tuple(names[at] for at in reach.shared), heads)


def _cosine(product: float, square: float, other: float) -> float:
    norms = math.sqrt(square) * math.sqrt(other)
    if not norms or not math.isfinite(norms):
        return math.nan
    return max(-1.0, min(1.0, product / norms))
