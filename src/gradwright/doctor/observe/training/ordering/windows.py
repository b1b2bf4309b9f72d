"""A window: what happened to the gradients of one optimizer from one step to the next.

NOTE [known state]: the state of the sampled gradients is remembered after everything that is known to change them (a
backward, clearing, clipping, unscaling, the step). Where it is another one later, the script changed them by hand, and
what was done there is not known: such a window is not judged by its backwards. A write through `.data` leaves the
version as it was, so that at first, and rarely later, a few values are remembered, too; who once wrote so is taken to
do it always.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer

from gradwright.doctor.observe.training.ordering.accumulating import Micro
from gradwright.doctor.observe.training.ordering.judging import Seen, Window, judge
from gradwright.doctor.observe.training.ordering.samples import GradientSample, State
from gradwright.doctor.observe.training.ordering.tallies import Tally
from gradwright.doctor.session.place import Location

_DEEP = 8  # windows in which values are looked at, too
# So many windows are looked at from the first on, and two of as many later, unless backwards accumulate.
_AWAKE = 32


class Record:
    """One optimizer: its window as it goes, and the tally that it adds to."""

    def __init__(self, optimizer: Optimizer, *, whole: bool) -> None:
        self.optimizer = weakref.ref(optimizer)
        self.sample = GradientSample(optimizer)
        self.tally = Tally()
        self.window = Window()
        self.known: State = ()
        self.values: Tensor | None = None
        self.after_step: State = ()
        self.before: State = ()
        self.steps = 0
        self.backwards = 0  # of any loss, by the last step
        self.asleep = False
        self.whole = whole  # whether the window was watched from its beginning
        self.fused = False  # steps inside of a backward: nothing of this order holds
        self.stepping = False
        self.in_scaler = False  # a GradScaler takes the step
        self.skipped = False  # a GradScaler left a step out
        self.seen = Seen()
        self.models: dict[int, Any] = {}  # weak references to DistributedDataParallel models; None: another's
        self._ids: set[int] = set()

    def notice(self) -> None:
        """See NOTE [known state]; gradients that are all gone were cleared by hand."""
        state = self.sample.state()
        if state == self.known:
            if self.values is not None and not torch.equal(self.values, self.sample.values()):
                self.window.by_hand = self.tally.by_hand = True
                self.values = None
        elif self.window.micros and not any(state):
            self.cleared(None, "")
        else:
            self.window.by_hand = self.window.by_hand or any(state)
            self.know(state)

    def know(self, state: State | None = None) -> None:
        """What is there now is as it should be."""
        self.known = self.sample.state() if state is None else state
        number = self.tally.steps
        deep = bool(self.window.micros) and (number < _DEEP or number & (number - 1) == 0)
        self.values = self.sample.values() if deep and self.sample.on_cpu() else None

    def arrives(self) -> None:
        """A backward begins."""
        if not self.sample:
            self.sample.choose()
            self.know()
        self.notice()
        self.before = self.known

    def went(self, micro: Micro) -> None:
        """A backward is over."""
        window = self.window
        state = self.sample.state()
        if any(state):
            changed = tuple(now != before for now, before in zip(state, self.before, strict=True))
        else:  # none chosen yet, or those have no gradients any more
            changed = (True,) if self.sample.choose() else ()
            state = self.sample.state()
        if not any(changed):
            self.known = state
            return
        window.fed += 1
        window.keys.add(micro.key)
        window.inside += self.stepping
        window.micros.append(micro)
        window.reached.append(changed if len(changed) == len(state) else (True,) * len(state))
        window.last_backward, window.cleared_at, window.cleared_by = micro.site.location, None, ""
        if micro.scaler is not None:
            window.scaler = micro.scaler
        self.know(state)

    def cleared(self, at: Location | None, by: str) -> None:
        """The gradients are gone, or zero."""
        window = self.window
        if window.micros:
            window.cleared_at, window.cleared_by = at, by
            window.thrown_at, window.thrown_by = at, by
            window.micros, window.reached = [], []
        window.scaler, window.by_hand = None, False
        self.know()

    def cleared_in_part(self, at: Location | None, by: str) -> None:
        """A module's gradients were cleared, maybe not all of this optimizer's."""
        state = self.sample.state()
        if state == self.known:
            return
        if all(now is None or now != before for now, before in zip(state, self.known, strict=True)):
            self.cleared(at, by)
        else:
            self.window.by_hand = True
            self.know(state)

    def stepped_over(self) -> None:
        """The window ends with no step: a GradScaler left it out."""
        self.skipped = True
        self._next()

    def has(self, ids: Iterable[int]) -> bool:
        """Whether one of these (by ids) is the optimizer's."""
        if not self._ids:
            self._ids = {id(parameter) for parameter in self.sample.parameters()}
        return not self._ids.isdisjoint(ids)

    def begins(self, here: Callable[[], Location | None], backwards: int) -> None:
        """``step`` begins. ``backwards``: how many ran by now, of any loss."""
        self.stepping = True
        seen = self.seen = Seen(whole=self.whole)
        window, tally = self.window, self.tally
        if not self.asleep:
            self.notice()
            seen.at = here()
            if self.steps == tally.steps == backwards == 0 and self.sample.without_gradients():
                tally.early_at = seen.at
            empty = window.fed > 0 and not window.micros and not window.by_hand
            seen.emptied = empty and self.sample.nothing_to_step_on()
            seen.scaled = bool(window.micros) and not self.in_scaler and not window.by_hand and window.scaler
        nothing_ran = self.steps > 0 and backwards == self.backwards and not window.by_hand
        seen.repeated = nothing_ran and any(self.after_step) and self.sample.state() == self.after_step
        if seen.repeated and self.asleep:
            seen.at = here()

    def ends(self, backwards: int) -> None:
        """It is over."""
        self.stepping = False
        seen, window, tally = self.seen, self.window, self.tally
        number = tally.steps
        tally.steps += 1
        self.steps += 1
        if not self.fused:
            if seen.repeated and tally.fed and backwards == self.backwards:
                tally.repeated += 1
                if tally.first_repeated is None:
                    tally.first_repeated, tally.repeated_at = number, seen.at
            if not self.asleep and window.inside <= 1:
                judge(window, tally, seen)
        self.backwards = backwards
        self._next()
        self.after_step = self.sample.state() if self.asleep else self.known

    def _next(self) -> None:
        """The next window begins; whether it is looked at is settled now, so that it is whole or not at all."""
        self.asleep = self.steps >= _AWAKE and self.steps % _AWAKE > 1 and not self.tally.accumulates(self.steps)
        self.window, self.whole = Window(), True
        if not self.asleep:
            self.know()
