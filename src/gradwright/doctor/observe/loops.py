"""The hook that instrumented loops call: when they are entered and left, and what they are entered with.

No torch is imported here: the script decides when torch is loaded, and a loop may run before that.
"""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from collections.abc import Callable
from types import FrameType
from typing import Any

from gradwright.doctor.session.facts import Fact, LoopRun
from gradwright.doctor.source.entered import LoopUse

RECORDED_ENTRIES = 2


class LoopWatch:
    """What the transform of ``source`` calls, under a name in builtins."""

    def __init__(
        self,
        saw: Callable[[float, float], None],
        share: Callable[[float], float],
        gradients: Callable[[], int],
        copy: Callable[[dict[str, Any]], dict[str, Any]],
    ) -> None:
        self._saw, self._share, self._gradients, self._copy = saw, share, gradients, copy
        self.uses: list[LoopUse] = []
        # Once the script is over, its functions run again in trials: those are no entries.
        self.closed = False
        self._open = threading.local()
        # torch's own, once torch is here: torch.compile knows it and leaves the rest of the hook out.
        self.is_compiling: Callable[[], bool] = bool
        # Tries a loop that takes gradients while its graph is alive, once: with the frame's own names and globals.
        self.try_live: Callable[[LoopUse, dict[str, Any], dict[str, Any]], None] | None = None
        # Is told, with the frame, of what the script's own looks for NaN came upon.
        self.on_look: Callable[[FrameType, str, bool, Any], None] | None = None

    def add(self, uses: list[LoopUse]) -> int:
        """Register the loops of a file; the number of the first."""
        base = len(self.uses)
        self.uses.extend(uses)
        return base

    def enter(self, number: int) -> bool:
        """Whether the caller should hand over its live-ins."""
        if self.closed or self.is_compiling():
            return False
        torch = sys.modules.get("torch")
        use = self.uses[number]
        use.entries += 1
        if not hasattr(self._open, "started"):
            self._open.started = {}
        self._open.started[number] = time.perf_counter(), self._gradients()
        if torch is None:
            return False
        if use.site.gradient_loop:
            return use.live is None and self.try_live is not None
        return use.entries <= RECORDED_ENTRIES and use.site.replayable

    def record(self, number: int, names: dict[str, Any]) -> None:
        use = self.uses[number]
        frame = sys._getframe(1)
        use.globals = frame.f_globals
        if use.site.gradient_loop:
            if self.try_live is not None:
                with contextlib.suppress(Exception):  # ours, and no business of the script's
                    self.try_live(use, dict(names), frame.f_globals)
            self._open.started[number] = time.perf_counter(), self._gradients()
            return
        # What can't be copied (a tensor subclass with ideas of its own) is not kept, and the report says so.
        with contextlib.suppress(Exception):
            use.live_ins.append(self._copy({name: names[name] for name in use.site.live_ins if name in names}))
        self._open.started[number] = time.perf_counter(), self._gradients()

    def leave(self, number: int) -> None:
        if self.closed or self.is_compiling():
            return
        entered = getattr(self._open, "started", {}).pop(number, None)
        if entered is not None:
            (started, gradients), ended = entered, time.perf_counter()
            self.uses[number].seconds += ended - started
            self.uses[number].gradients += self._gradients() - gradients
            if "torch" in sys.modules:
                self._saw(started, ended)

    def found(self, how: str, trains: bool, value: Any) -> None:
        """A look of the script's own for NaN came upon something; see ``source.own_looks``."""
        if not self.closed and not self.is_compiling() and self.on_look is not None:
            self.on_look(sys._getframe(1), how, trains, value)

    def facts(self) -> list[Fact]:
        return [
            LoopRun(
                id=f"loop {use.subject.id}",
                subject=use.subject.id,
                entries=use.entries,
                seconds=use.seconds,
                share_of_step=self._share(use.seconds),
            )
            for use in self.uses
            if use.entries
        ]
