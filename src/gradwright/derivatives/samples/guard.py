"""A Jacobian that was made for all samples at once, kept only where it is known to be each sample's own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor

from gradwright.derivatives.graph.engine import hooks_ever, hooks_heard
from gradwright.derivatives.graph.options import Batch
from gradwright.derivatives.graph.request import Request
from gradwright.derivatives.samples.probe import Probe, probe
from gradwright.derivatives.samples.structure import Structure


@dataclass(frozen=True)
class Outcome:
    """``blocks``: the Jacobian, B * K * D entries in that order, in any shape.  ``seen``: the probe, where one ran."""

    blocks: Tensor
    seen: Probe | None

    @property
    def held(self) -> bool:
        return self.seen is None or self.seen.held


def watched(
    request: Request, structure: Structure, batch: Batch, make: Callable[[], Tensor], *, bypasses: bool = False
) -> Outcome:
    """Run ``make`` and find out whether what it made is the Jacobian.

    ``make``: the Jacobian of ``request`` by backwards or forwards that all samples share.
    ``bypasses``: it does not run autograd's engine over the whole way (it reads saved tensors), so hooks don't speak;
    then it is believed only where no hook was ever registered in this process, or one vjp agrees.
    Cost beside ``make``: nothing where the structure proves it and no hook spoke, otherwise one vjp.
    """
    with hooks_heard() as heard:
        blocks = make()
    silent = hooks_ever() == 0 or (heard.silent and not bypasses)
    alone = request.samples <= 1 and not bypasses
    assumed = batch == "assume_independent" and (silent or not bypasses)
    if alone or assumed or (silent and structure.proved):
        return Outcome(blocks, None)
    return Outcome(blocks, probe(request, blocks.reshape(request.samples, *request.rows, *request.columns)))
