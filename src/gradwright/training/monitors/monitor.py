"""What a monitor is told, in the order in which it happens. Monitors read; smoothing alone changes gradients."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from gradwright.training.update import Update
from gradwright.training.window import Window


@dataclass(frozen=True)
class Gradients:
    """The gradients of a window so far.

    ``named``: parameters that train, with their names; what was summed up stands in ``.grad`` (None: elsewhere).
    ``by_loss``: each loss's own, in the order of ``named``, where they are kept apart. ``items``: what was summed up
    here, of each loss. ``factor``: a gradient of the window's loss, as the update will use it, is ``factor`` times what
    stands there (a gradient scaler's scale, the ranks' mean, a division that is still to come).
    """

    window: Window[Any]
    step: int
    named: Sequence[tuple[str, Tensor]]
    by_loss: Mapping[str, Sequence[Tensor | None]]
    items: Mapping[str, float]
    factor: float | None


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

    def state_dict(self) -> dict[str, Any]:
        return {}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """What ``state_dict`` gave."""
