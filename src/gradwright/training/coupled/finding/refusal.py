"""A coupled loss that is summed up over micro-batches is refused, with the reason."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

from torch import Tensor

from gradwright.errors import CoupledLoss, UsageError
from gradwright.training.batches import sample_count
from gradwright.training.coupled.finding.walk import find_meeting
from gradwright.training.window import Window

Coupled: TypeAlias = Literal["refuse", "accept"]


class Refusal:
    """Looks at the first loss of each name whose micro-batch has two samples or more, in a window of several."""

    def __init__(self, coupled: Coupled) -> None:
        if coupled not in ("refuse", "accept"):
            raise UsageError(f"coupled is {coupled!r}: it is 'refuse' or 'accept'")
        self._looks = coupled == "refuse"
        self._seen: set[str] = set()

    def look(self, name: str, loss: Tensor, window: Window[Any], step: int, where: str) -> None:
        """Raises: CoupledLoss."""
        if not self._looks or name in self._seen or window.all_steps < 2 or step >= len(window):
            return
        try:
            samples = sample_count(window.batches[step])
        except UsageError:
            return  # where its samples lie can't be told
        if samples < 2:
            return
        self._seen.add(name)
        meeting = find_meeting(loss, samples)
        if meeting is None:
            return
        self._seen.discard(name)
        line = f"\n         {meeting.line}" if meeting.line else ""
        raise CoupledLoss(
            f"{where}: the loss {name!r} couples the samples of its batch, so the sum over micro-batches is not the "
            f"loss of them together (Dice accumulated so is 0.21 off, InfoNCE has other negatives)\n"
            f"  why    {meeting.what}{line}\n"
            "  do     coupled_update(acc, window, forward, loss) makes the exact update; or compute the loss of each "
            "sample, and take their mean; coupled='accept' takes the sum over micro-batches for what is meant"
        )
