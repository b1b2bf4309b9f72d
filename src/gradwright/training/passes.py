"""Where a pass over the loader stands, so that a run that was killed between windows goes on with the same batches.

A shuffling loader draws its order from torch's random state when its pass begins. So the state from then is kept: the
pass begins again from it, the batches that were used are drawn and dropped, and then the state from the checkpoint
is put back.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import torch
from torch import Tensor

from gradwright.training.loading import skipping

RandomState = dict[str, list[Tensor]]


class Pass:
    """Counts windows and batches."""

    def __init__(self) -> None:
        self.windows = 0
        self._passes = 0
        self._taken = self._used = 0
        self._at_start: RandomState | None = None
        self._resumed: Mapping[str, Any] | None = None

    def begin(self, loader: Iterable[Any]) -> Iterator[Any]:
        state, self._resumed = self._resumed, None
        if state is None or state["at_start"] is None:
            self._taken = self._used = 0
            self._at_start = random_state()
            return iter(loader)
        self._at_start = state["at_start"]
        put_back(state["at_start"])
        iterator = skipping(loader, self._used)
        put_back(state["now"])
        return iterator

    def took(self, batches: int) -> None:
        self._taken += batches

    def finished(self) -> None:
        self.windows += 1
        self._used = self._taken

    def end(self) -> None:
        self._passes += 1
        self._at_start = None
        self._taken = self._used = 0

    def state_dict(self) -> dict[str, Any]:
        return {
            "windows": self.windows + (self._taken > self._used),
            "passes": self._passes,
            "batches": self._taken,
            "at_start": self._at_start,
            "now": random_state(),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.windows, self._passes = state["windows"], state["passes"]
        self._taken = self._used = state["batches"]
        self._resumed = state


def random_state() -> RandomState:
    state: RandomState = {"cpu": [torch.get_rng_state()]}
    if torch.cuda.is_available() and torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        state["cuda"] = torch.cuda.get_rng_state_all()
    return state


def put_back(state: RandomState) -> None:
    torch.set_rng_state(state["cpu"][0])
    if "cuda" in state:
        torch.cuda.set_rng_state_all(state["cuda"])
