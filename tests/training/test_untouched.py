"""What a training loop does by habit, beside the accumulator: told in the window where it happens, and no step made."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from tests.training.token_model import Batch, cross_entropy, drawn, flat, full_gradient, kept, model_of, relative
from torch import Tensor

from gradwright.errors import AccumulationError
from gradwright.training import GradientAccumulator

BATCHES = drawn([3, 2, 4], torch.float64, 0)


class Loop:
    """One window; ``at_top``, ``at_end`` of its body (from the second micro-batch on, ``at_end`` in each), ``behind``
    it: what the user does there."""

    def __init__(self, **options: Any) -> None:
        self.model = model_of()
        self.optimizer = torch.optim.SGD(self.model.parameters(), 0.1)
        self.options = {"accumulation_steps": 3, "count": kept, "progress": False} | options
        self.acc = GradientAccumulator(self.model, self.optimizer, **self.options)
        self.before = flat_of(self.model)

    def loss(self, batch: Batch) -> Tensor:
        return cross_entropy(self.model, batch, "sum")

    def run(self, where: str, habit: Callable[["Loop"], object]) -> None:
        for window in self.acc.windows(BATCHES):
            for batch in window:
                habit(self) if where == "at_top" else None
                self.acc.backward(self.loss(batch), reduction="sum")
                habit(self) if where == "at_end" else None
            habit(self) if where == "behind" else None
            self.acc.step()


def flat_of(model: torch.nn.Module) -> Tensor:
    return torch.cat([one.detach().reshape(-1) for one in model.parameters()]).clone()


def clears(loop: Loop) -> None:
    loop.optimizer.zero_grad()


def zeroes(loop: Loop) -> None:
    loop.model.zero_grad(set_to_none=False)


def goes_backward(loop: Loop) -> None:
    loop.loss(BATCHES[0]).backward()


def clips(loop: Loop) -> None:
    torch.nn.utils.clip_grad_norm_(loop.model.parameters(), 1e-3)


def steps(loop: Loop) -> None:
    loop.optimizer.step()


CLEARED, CHANGED = "was cleared inside of this window", "was changed inside of this window"


@pytest.mark.parametrize(
    ("where", "habit", "told"),
    [
        ("at_top", clears, CLEARED), ("at_end", clears, CLEARED), ("behind", clears, CLEARED),
        ("at_top", zeroes, CLEARED), ("at_end", zeroes, CLEARED),
        ("at_top", goes_backward, CHANGED), ("at_end", goes_backward, CHANGED),
        ("at_top", clips, CHANGED), ("at_end", clips, CHANGED),
        ("at_top", steps, "optimizer.step\\(\\) inside of a window"),
        ("at_end", steps, "optimizer.step\\(\\) inside of a window"),
    ],
)  # fmt: skip
def test_a_habit_is_told_and_makes_no_step(where: str, habit: Callable[[Loop], None], told: str) -> None:
    loop = Loop()
    with pytest.raises(AccumulationError, match=rf"rank 0, window 0: .*{told}|rank 0, window 0: {told}"):
        loop.run(where, habit)
    assert torch.equal(flat_of(loop.model), loop.before) and loop.acc.updates == 0


def test_a_second_step_of_the_same_gradient_is_told() -> None:
    loop = Loop()
    with pytest.raises(AccumulationError, match=r"stepped behind the loop of this window, before acc\.step\(\)"):
        loop.run("behind", steps)


@pytest.mark.parametrize("options", [{"separate": True}, {"accumulate_dtype": torch.float64}], ids=str)
def test_gradients_that_are_kept_beside_are_not_cleared_by_anybody(options: dict[str, Any]) -> None:
    loop = Loop(**options)
    loop.run("at_end", clears)
    assert relative(flat(loop.model.parameters()), full_gradient(BATCHES, torch.float64)) <= 1e-12
    loop = Loop(**options)
    with pytest.raises(AccumulationError, match=CHANGED):
        loop.run("at_top", goes_backward)


@pytest.mark.parametrize("set_to_none", [True, False])
def test_gradients_may_be_cleared_between_windows(set_to_none: bool) -> None:
    loop = Loop()
    for _ in range(2):
        loop.optimizer.zero_grad(set_to_none=set_to_none)
        loop.run("never", clears)
        loop.optimizer.zero_grad(set_to_none=set_to_none)
    assert loop.acc.updates == 2


def test_the_gradient_of_a_window_may_be_clipped_by_hand_once_it_is_divided() -> None:
    loop = Loop()
    loop.run("behind", clips)
    assert float(flat(loop.model.parameters()).norm()) == pytest.approx(1e-3, rel=1e-3)
    loop = Loop(count=None, normalize="items")
    with pytest.raises(AccumulationError, match=CHANGED):
        for batch in loop.acc.window(BATCHES):
            loop.acc.backward(loop.loss(batch), reduction="sum", items=kept(batch))
        clips(loop)  # of sums that are not divided yet
        loop.acc.step()


def test_a_closed_window_leaves_the_optimizer_alone() -> None:
    loop = Loop()
    loop.run("never", clears)
    loop.optimizer.step()  # the user's own affair
    for batch in loop.acc.window(BATCHES):
        loop.acc.backward(loop.loss(batch), reduction="sum")
        break
    loop.acc.skip()
    loop.optimizer.step()


def test_two_windows_of_one_accumulator_run_one_after_the_other() -> None:
    loop = Loop()
    with pytest.raises(AccumulationError, match="another window of this accumulator is under way"):
        for first, _ in zip(loop.acc.window(BATCHES), loop.acc.window(BATCHES), strict=True):
            loop.acc.backward(loop.loss(first), reduction="sum")


def test_two_accumulators_over_the_same_parameters_run_one_after_the_other() -> None:
    loop = Loop()
    other = GradientAccumulator(loop.model, loop.optimizer, **loop.options)
    with pytest.raises(AccumulationError, match=CHANGED):
        for first, second in zip(loop.acc.window(BATCHES), other.window(BATCHES), strict=True):
            loop.acc.backward(loop.loss(first), reduction="sum")
            other.backward(loop.loss(second), reduction="sum")


def test_a_window_that_was_left_early_is_skipped_and_the_next_is_clean() -> None:
    loop, clean = Loop(accumulation_steps=1), Loop(accumulation_steps=1)
    for window in loop.acc.windows(BATCHES):
        try:
            for batch in window:
                loop.acc.backward(loop.loss(batch), reduction="sum")
                if window.index == 1:
                    raise ValueError("a bad sample")
        except ValueError:
            loop.acc.skip()
            continue
        loop.acc.step()
    for batch in (BATCHES[0], BATCHES[2]):
        for piece in clean.acc.window([batch]):
            clean.acc.backward(clean.loss(piece), reduction="sum")
        clean.acc.step()
    assert torch.equal(flat_of(loop.model), flat_of(clean.model))
    assert (loop.acc.updates, loop.acc.skipped_windows) == (2, 1)


def test_an_accumulator_that_is_gone_watches_no_optimizer() -> None:
    loop = Loop()
    assert len(loop.optimizer._optimizer_step_pre_hooks) == 1
    del loop.acc
    assert not loop.optimizer._optimizer_step_pre_hooks
