"""Where a pass over the loader stands, so that a run that was killed between windows goes on with the same batches.

A shuffling loader draws its order from torch's random state, or from a generator of its own, when its pass begins. So
the states from then are kept: the pass begins again from them, the batches that were used are drawn and dropped, and
then the states from the checkpoint are put back.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import torch
from torch import Tensor

from gradwright.training.loading import skipping
from gradwright.training.randomness import RandomState, put_back, random_state, readable, taken


class Pass:
    """Counts windows and batches."""

    def __init__(self) -> None:
        self.windows = 0
        self._passes = 0
        self._taken = self._used = 0
        self._at_start: RandomState | None = None
        self._loader_at_start: list[Tensor] = []
        self._generators: list[torch.Generator] = []
        self._resumed: Mapping[str, Any] | None = None
        self._before: tuple[RandomState, list[Tensor]] | None = None

    def begin(self, loader: Iterable[Any]) -> Iterator[Any]:
        state, self._resumed = self._resumed, None
        self._generators = generators_of(loader)
        if state is None:
            return self._from_its_start(loader)
        if state["at_start"] is None:
            put_back(state["now"])
            self._set_loader(state["loader_now"])
            return self._from_its_start(loader)
        self._at_start, self._loader_at_start = state["at_start"], state["loader_at_start"]
        put_back(state["at_start"])
        self._set_loader(state["loader_at_start"])
        iterator = skipping(loader, self._used)
        put_back(state["now"])
        return iterator

    def _from_its_start(self, loader: Iterable[Any]) -> Iterator[Any]:
        self._taken = self._used = 0
        self._at_start, self._loader_at_start = random_state(), self._loader_now()
        return iter(loader)

    @property
    def under_way(self) -> bool:
        return self._at_start is not None

    def remember(self) -> None:
        """The states before a window is fetched."""
        self._before = taken(), self._loader_now()

    def took(self, batches: int) -> None:
        self._taken += batches

    def finished(self) -> None:
        self.windows += 1
        self._used = self._taken

    def end(self) -> None:
        self._passes += 1
        self._at_start = None
        self._taken = self._used = 0

    def state_dict(self, *, inside: bool = False) -> dict[str, Any]:
        """``inside``: as it was before the window that is under way."""
        now, loader_now = random_state(), self._loader_now()
        if inside and self._before is not None:
            now, loader_now = readable(self._before[0]), self._before[1]
        return {
            "windows": self.windows + (self._taken > self._used and not inside),
            "passes": self._passes,
            "batches": self._used if inside else self._taken,
            "at_start": self._at_start,
            "loader_at_start": self._loader_at_start,
            "now": now,
            "loader_now": loader_now,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.windows, self._passes = state["windows"], state["passes"]
        self._taken = self._used = state["batches"]
        self._resumed = state
        put_back(state["now"])

    def _loader_now(self) -> list[Tensor]:
        return [generator.get_state() for generator in self._generators]

    def _set_loader(self, states: list[Tensor]) -> None:
        """Of another loader than the one that was saved there may be more or fewer: those are its own business."""
        for generator, state in zip(self._generators, states, strict=False):
            generator.set_state(state)


def generators_of(loader: Any) -> list[torch.Generator]:
    """The generators that a loader was given: its own, its samplers'."""
    holders = [loader, getattr(loader, "sampler", None), getattr(loader, "batch_sampler", None)]
    holders.append(getattr(holders[-1], "sampler", None))
    found: list[torch.Generator] = []
    for holder in holders:
        generator = getattr(holder, "generator", None)
        if isinstance(generator, torch.Generator) and not any(generator is known for known in found):
            found.append(generator)
    return found
