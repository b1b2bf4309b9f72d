"""Anomaly mode that was switched on and left on: at how many backwards, by which line, and what it costs here."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from gradwright.doctor.observe.guard import guarded
from gradwright.doctor.observe.looker import Looker, Surroundings
from gradwright.doctor.session.facts import AnomalyMode, Fact
from gradwright.doctor.session.model import Subject
from gradwright.doctor.session.place import Location
from gradwright.doctor.source.places import location_in, user_frame

_FEWEST = 8  # backwards under it, below which nothing is worth a trial
_LAYERS, _WIDTH, _ROUNDS = 4, 64, 15


class AnomalyLooker(Looker):
    """Cost: a question to torch at each backward; a trial of 20 ms when the script is over, if it was left on."""

    looks_at = "whether anomaly detection was left on"

    def __init__(self, surroundings: Surroundings) -> None:
        super().__init__(surroundings)
        self._backwards = self._under = 0
        self._site: Subject | None = None
        self._enabled_at: Location | None = None
        self._seconds: tuple[float, float] | None = None
        self._restore: list[Callable[[], None]] = []

    def install(self) -> None:
        original = torch.set_anomaly_enabled
        note = guarded(self._note, self.on_fault)

        @functools.wraps(original)
        def enable(*args: Any, **kwargs: Any) -> Any:
            note(*args, **kwargs)
            return original(*args, **kwargs)

        torch.set_anomaly_enabled = enable
        self._restore.append(functools.partial(setattr, torch, "set_anomaly_enabled", original))

    def remove(self) -> None:
        while self._restore:
            self._restore.pop()()

    def _note(self, enabled: bool = True, *_: Any, **__: Any) -> None:
        frame = user_frame(3) if enabled and not torch.is_anomaly_enabled() else None
        if frame is not None:
            self._enabled_at = location_in(frame.f_code, frame.f_lasti, frame.f_lineno)

    def before_backward(self, site: Subject, root: Tensor | None) -> None:
        self._backwards += 1
        if torch.is_anomaly_enabled():
            self._under += 1
            self._site = self._site or site

    def facts(self) -> list[Fact]:
        if self._site is None or self._under < _FEWEST:
            return []
        if self.clock.over and self._seconds is None:
            self._seconds = guarded(_tried, self.on_fault)() or (0.0, 0.0)
        without, under = self._seconds or (0.0, 0.0)
        return [
            AnomalyMode(
                id="anomaly mode",
                subject=self._site.id,
                backwards=self._backwards,
                under=self._under,
                location=self._enabled_at,
                seconds=without,
                seconds_under=under,
            )
        ]


def _tried() -> tuple[float, float]:
    """Seconds of a small step without anomaly mode and under it, the best of some rounds. No random number is drawn."""
    was, checked = torch.is_anomaly_enabled(), torch.is_anomaly_check_nan_enabled()
    with torch.enable_grad():
        weights = [torch.full((_WIDTH, _WIDTH), 0.01, requires_grad=True) for _ in range(_LAYERS)]
        x = torch.ones(32, _WIDTH)
        best = [float("inf"), float("inf")]
        try:
            for _ in range(_ROUNDS):
                for under in (False, True):
                    torch.set_anomaly_enabled(under)
                    started = time.perf_counter()
                    out = x
                    for weight in weights:
                        out = torch.relu(out @ weight)
                    torch.autograd.grad(out.sum(), weights)
                    best[under] = min(best[under], time.perf_counter() - started)
        finally:
            torch.set_anomaly_enabled(was, checked)
    return best[0], best[1]
