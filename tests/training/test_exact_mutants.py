"""The laws of exactness meet accumulators that are wrong in the ways that people's are."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from tests.training.updates import Case, difference

from gradwright.training import shares
from gradwright.training.counting import scaled
from gradwright.training.gradients import InPlace
from gradwright.training.running import Running
from gradwright.training.update import Stepping
from gradwright.training.window import Window

CASES = [
    Case(((3, 1, 4), (2, 5)), reduction="sum"),
    Case(((3, 1, 4), (2, 5)), reduction="mean", how="items"),
    Case(((3, 1, 4), (2, 5)), reduction="mean", how="mapping"),
    Case(((2, 3, 1), (4,)), how="samples", max_norm=0.02, decay=0.5),
    Case(((3, 1), (2, 2)), dtype=torch.float32, scale=64.0, max_norm=0.02),
    Case(((0, 3, 2), (1, 4)), empty=(0,)),
]


def mean_of_means(patch: pytest.MonkeyPatch) -> None:
    total = Running.total

    def mean(self, name, items):
        return None if total(self, name, items) is None else items * self.window.all_steps

    patch.setattr(Running, "total", mean)


def divided_by_the_full_window(patch: pytest.MonkeyPatch) -> None:
    """By accumulation_steps in a short window, too."""
    total = Running.total

    def short(self, *which):
        known = total(self, *which)
        return known and known * 3 / self.window.all_steps

    patch.setattr(Running, "total", short)


def divided_twice(patch: pytest.MonkeyPatch) -> None:
    made = scaled
    patch.setattr(shares, "scaled", lambda loss, factor: made(loss, factor * factor))


def clipped_for_each_micro_batch(patch: pytest.MonkeyPatch) -> None:
    _after_each(patch, lambda store: torch.nn.utils.clip_grad_norm_(store.parameters, 0.02))


def unscaled_twice(patch: pytest.MonkeyPatch) -> None:
    prepare = Stepping.prepare

    def again(self, parameters, *rest, **more):
        for parameter in parameters if self.scaler is not None else ():
            parameter.grad /= self.scaler.get_scale()
        return prepare(self, parameters, *rest, **more)

    patch.setattr(Stepping, "prepare", again)


def clipped_before_unscaling(patch: pytest.MonkeyPatch) -> None:
    prepare = Stepping.prepare

    def early(self, parameters, *rest, **more):
        if self.max_norm is not None:
            torch.nn.utils.clip_grad_norm_(parameters, self.max_norm)
        return prepare(self, parameters, *rest, **more)

    patch.setattr(Stepping, "prepare", early)


def schedule_for_each_micro_batch(patch: pytest.MonkeyPatch) -> None:
    begin = Running.begin

    def begun(self, step, **more):
        if step:
            _schedule.step()
        begin(self, step, **more)

    made = Stepping.__post_init__

    def noted(self):
        global _schedule
        made(self)
        _schedule = self.scheduler or _Nothing()

    patch.setattr(Stepping, "__post_init__", noted)
    patch.setattr(Running, "begin", begun)


class _Nothing:
    def step(self) -> None:
        """No schedule."""


_schedule: Any = _Nothing()


def gradients_are_never_cleared(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(InPlace, "clear", lambda self: None)


def a_micro_batch_is_lost(patch: pytest.MonkeyPatch) -> None:
    add = InPlace.add

    def adding(self, losses, backward, **more):
        self.seen = getattr(self, "seen", 0) + 1
        if self.seen != 2:
            add(self, losses, backward, **more)

    patch.setattr(InPlace, "add", adding)


def reordered_counts(patch: pytest.MonkeyPatch) -> None:
    made = Window.__init__

    def turned(self, *arguments, **more):
        made(self, *arguments, **more)
        self.counts = self.counts[::-1]

    patch.setattr(Window, "__init__", turned)


def _after_each(patch: pytest.MonkeyPatch, do: Callable[[InPlace], object]) -> None:
    add = InPlace.add

    def added(self, losses, backward, **more):
        add(self, losses, backward, **more)
        do(self)

    patch.setattr(InPlace, "add", added)


MUTANTS = [
    mean_of_means, divided_by_the_full_window, divided_twice, clipped_for_each_micro_batch, unscaled_twice,
    clipped_before_unscaling, schedule_for_each_micro_batch, gradients_are_never_cleared, a_micro_batch_is_lost,
    reordered_counts,
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=str)
def test_the_cases_hold(case: Case) -> None:
    assert difference(case) <= (1e-12 if case.dtype == torch.float64 else 1e-5)


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.__name__)
def test_a_wrong_accumulator_is_caught(mutant: Callable[[pytest.MonkeyPatch], None]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        mutant(patch)
        worst = max(difference(case) for case in CASES)
    assert worst > 1e-3, worst
