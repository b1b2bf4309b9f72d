"""What a monitor is told, in the order in which it happens. Monitors read; smoothing alone changes gradients."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from gradwright.errors import UsageError
from gradwright.training.products import added
from gradwright.training.ranks import Ranks
from gradwright.training.update import Update
from gradwright.training.window import Window


@dataclass(frozen=True)
class Gradients:
    """The gradients of a window so far.

    ``named``: parameters that train, with their names; what was summed up stands in ``.grad`` (None: elsewhere).
    ``by_loss``: each loss's own, in the order of ``named``, where they are kept apart; from ``summed`` on they are
    those of all ranks, weighted and divided, and multiplied by ``scale`` (a gradient scaler's; 1 without one).
    ``items``: what was summed up here, of each loss.
    ``to_sum``: in a micro-batch, the gradient of a loss, summed and not divided, over what is summed up so far, is so
    many times what stands there (empty for coupled losses, which are no sums). ``shared``: over all ranks, from this
    micro-batch on; else over this rank's own. ``shared_always``: so in every micro-batch of every rank.
    ``ranks``: what the ranks tell one another; all of them are told of the same windows.
    """

    window: Window[Any]
    step: int
    named: Sequence[tuple[str, Tensor]]
    by_loss: Mapping[str, Sequence[Tensor | None]]
    items: Mapping[str, float]
    scale: float
    to_sum: Mapping[str, float]
    shared: bool
    shared_always: bool
    optimizer: torch.optim.Optimizer
    ranks: Ranks

    @property
    def names(self) -> list[str]:
        return [name for name, _ in self.named]

    def of(self, loss: str | None) -> list[Tensor | None]:
        """The gradients as they stand: of all losses, or of one that is kept apart. Raises: UsageError."""
        if loss is None and self.by_loss and "" not in self.by_loss:
            return [added(parts) for parts in zip(*self.by_loss.values(), strict=True)]
        if loss is None:
            return list(self.by_loss.get("", [parameter.grad for _, parameter in self.named]))
        if loss not in self.by_loss:
            said = ", ".join(repr(name) for name in self.by_loss if name) or "none"
            raise UsageError(
                f"the gradient of the loss {loss!r} is not kept apart ({said} is): say separate=True to "
                "GradientAccumulator, and name the losses at backward, as in {'ce': loss}"
            )
        return list(self.by_loss[loss])


class Monitor:
    """Override what you want to see."""

    def micro_batch(self, gradients: Gradients) -> None:
        """After the backward of a micro-batch; its gradients were added up."""

    def summed(self, gradients: Gradients) -> None:
        """The window's gradient: of all ranks, unscaled; before it is smoothed and clipped."""

    def stepping(self, gradients: Gradients) -> None:
        """What the optimizer is going to use: smoothed and clipped."""

    def updated(self, update: Update) -> None:
        """After the step, or where none was made."""

    def curves(self) -> Mapping[str, float]:
        """What is to be drawn of the update that was just made, by name."""
        return {}

    def state_dict(self) -> dict[str, Any]:
        return {}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """What ``state_dict`` gave."""
