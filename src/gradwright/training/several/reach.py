"""Which parameters which loss reaches: those of several losses are shared, those of one are its head."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from torch import Tensor

ByLoss = Mapping[str, Sequence["Tensor | None"]]


@dataclass(frozen=True)
class Reach:
    """Places in the list of parameters.

    ``shared``: at least two losses have a gradient there (one of zeros counts: the loss's graph leads there).
    ``heads``: of each loss, what no other reaches.
    """

    shared: tuple[int, ...]
    heads: Mapping[str, tuple[int, ...]]

    @classmethod
    def of(cls, by_loss: ByLoss) -> Reach:
        """
        >>> import torch
        >>> one = torch.ones(1)
        >>> Reach.of({"ce": [one, one, None], "aux": [one, None, one]})
        Reach(shared=(0,), heads={'ce': (1,), 'aux': (2,)})
        """
        parameters = max((len(gradients) for gradients in by_loss.values()), default=0)
        losses_at = [
            [name for name, gradients in by_loss.items() if gradients[at] is not None] for at in range(parameters)
        ]
        shared = tuple(at for at, names in enumerate(losses_at) if len(names) > 1)
        heads = {name: tuple(at for at, names in enumerate(losses_at) if names == [name]) for name in by_loss}
        return cls(shared, heads)
