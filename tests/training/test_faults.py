"""What goes wrong inside a window of one rank is told, and no step is made of it."""

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from tests.training.token_model import Batch, cross_entropy, drawn, flat, joined, kept, model_of, relative
from torch import Tensor, nn

from gradwright.errors import AccumulationError, NonFiniteGradient, UsageError
from gradwright.training import GradientAccumulator


def made(**options: Any) -> GradientAccumulator:
    model = model_of()
    options = {"accumulation_steps": 2, "count": kept, "progress": False} | options
    return GradientAccumulator(model, torch.optim.SGD(model.parameters(), 0.1), **options)


def parameters(acc: GradientAccumulator) -> Tensor:
    return torch.cat([one.detach().reshape(-1) for one in acc.parameters]).clone()


BATCHES = drawn([3, 2, 4, 1], torch.float64, 0)


def test_a_loader_that_raises_inside_a_window_makes_no_step() -> None:
    def loader() -> Iterator[Batch]:
        yield from BATCHES[:3]
        raise OSError("the disk is gone")

    acc = made()
    seen = []
    with pytest.raises(OSError, match="the disk"):
        for window in acc.windows(loader()):
            seen.append(len(window))
            for batch in window:
                acc.backward(cross_entropy(acc.model, batch, "sum"), reduction="sum")
            acc.step()
    assert seen == [2] and acc.updates == 1


def test_a_loop_that_is_left_early_makes_no_step() -> None:
    acc = made()
    before = parameters(acc)
    for batch in acc.window(BATCHES):
        acc.backward(cross_entropy(acc.model, batch, "sum"), reduction="sum")
        break
    with pytest.raises(AccumulationError, match="rank 0, window 0: 0 of 4 micro-batches were run through"):
        acc.step()
    assert torch.equal(parameters(acc), before)


def test_a_micro_batch_without_a_backward_makes_no_step() -> None:
    acc = made()
    for batch in acc.window(BATCHES):
        if len(batch[1]) != 2:
            acc.backward(cross_entropy(acc.model, batch, "sum"), reduction="sum")
    with pytest.raises(AccumulationError, match="rank 0, window 0: micro-batch 1 had no backward"):
        acc.step()


def test_a_window_without_a_step_is_told() -> None:
    acc = made()
    with pytest.raises(AccumulationError, match="window 0: step\\(\\) was not called"):
        for window in acc.windows(BATCHES):
            for batch in window:
                acc.backward(cross_entropy(acc.model, batch, "sum"), reduction="sum")


@pytest.mark.parametrize("what", ["step", "backward"])
def test_outside_of_a_window_there_is_no_update(what: str) -> None:
    acc = made()
    with pytest.raises(AccumulationError, match=f"{what} outside of a window"):
        acc.step() if what == "step" else acc.backward(torch.zeros(()), reduction="sum")


def test_nan_names_the_micro_batch_and_makes_no_step() -> None:
    acc = made(accumulation_steps=4)
    before = parameters(acc)
    for step, batch in enumerate(acc.window(BATCHES)):
        loss = cross_entropy(acc.model, batch, "sum")
        acc.backward(loss * float("nan") if step == 2 else loss, reduction="sum")
    with pytest.raises(NonFiniteGradient, match=r"rank 0, window 0: .*micro-batch 2 is NaN"):
        acc.step()
    assert torch.equal(parameters(acc), before)


def test_nan_may_be_skipped_and_the_next_window_is_clean() -> None:
    acc, clean = made(on_nonfinite="skip", max_norm=1.0), made(max_norm=1.0)
    for window in acc.windows(BATCHES):
        for batch in window:
            loss = cross_entropy(acc.model, batch, "sum")
            acc.backward(loss * float("nan") if window.index == 0 else loss, reduction="sum")
        update = acc.step()
        assert update.stepped == (window.index == 1)
    for batch in clean.window(BATCHES[2:]):
        clean.backward(cross_entropy(clean.model, batch, "sum"), reduction="sum")
    clean.step()
    assert acc.updates == 1 and torch.equal(parameters(acc), parameters(clean))


def test_a_window_without_items_is_left_out() -> None:
    batches = drawn([2, 2, 3, 1], torch.float64, 0, empty=(0, 1))
    acc = made()
    seen = []
    for window in acc.windows(batches):
        for batch in window:
            acc.backward(cross_entropy(acc.model, batch, "mean"), reduction="mean")
        seen.append((window.index, acc.step().stepped))
    assert seen == [(1, True)] and acc.skipped_windows == 1


def test_a_window_without_items_that_only_backward_counts_makes_no_step() -> None:
    acc = made(count=None)
    before = parameters(acc)
    for batch in acc.window(drawn([2, 2], torch.float64, 0, empty=(0, 1))):
        acc.backward(cross_entropy(acc.model, batch, "sum"), reduction="sum", items=kept(batch))
    update = acc.step()
    assert update.why_not == "no rank had any items in this window" and torch.equal(parameters(acc), before)


class Sometimes(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.always, self.never, self.once = model_of(), nn.Linear(4, 5).double(), nn.Linear(4, 5).double()

    def forward(self, x: Tensor, more: bool) -> Tensor:
        return self.always(x) + self.once(x) if more else self.always(x)


@pytest.mark.parametrize("wider", [None, torch.float64])
def test_parameters_that_are_not_used_have_no_gradient(wider: torch.dtype | None) -> None:
    torch.manual_seed(0)
    model = Sometimes()
    acc = GradientAccumulator(
        model, torch.optim.Adam(model.parameters()), accumulation_steps=4, count=kept, accumulate_dtype=wider
    )
    for step, (x, y) in enumerate(acc.window(BATCHES)):
        acc.backward(
            nn.functional.cross_entropy(model(x, step == 1), y, reduction="sum", ignore_index=-100), reduction="sum"
        )
    before = model.never.weight.detach().clone()
    assert acc.step().stepped
    assert model.never.weight.grad is None and torch.equal(model.never.weight, before)
    assert model.once.weight.grad is not None and model.once.weight.grad.abs().sum() > 0


def test_an_optimizer_with_a_closure_makes_the_full_batch_steps() -> None:
    whole, model = model_of(), model_of()
    plain = torch.optim.LBFGS(whole.parameters(), lr=0.5, max_iter=5, line_search_fn="strong_wolfe")
    optimizer = torch.optim.LBFGS(model.parameters(), lr=0.5, max_iter=5, line_search_fn="strong_wolfe")
    acc = GradientAccumulator(model, optimizer, accumulation_steps=4, count=kept, progress=False)
    everything = joined(BATCHES)

    def closure() -> Tensor:
        plain.zero_grad()
        loss = cross_entropy(whole, everything, "mean")
        loss.backward()
        return loss

    for _ in range(4):
        expected = float(plain.step(closure).detach())
        update = acc.update(acc.window(BATCHES), lambda batch: cross_entropy(model, batch, "sum"), reduction="sum")
        assert update.loss == pytest.approx(expected, rel=1e-12)
    assert relative(parameters(acc), torch.cat([one.detach().reshape(-1) for one in whole.parameters()])) <= 1e-12
    assert torch.isfinite(flat(acc.parameters)).all()


def test_an_optimizer_with_a_closure_does_not_step_by_itself() -> None:
    model = model_of()
    acc = GradientAccumulator(model, torch.optim.LBFGS(model.parameters()), accumulation_steps=2, count=kept)
    for batch in acc.window(BATCHES[:2]):
        acc.backward(cross_entropy(model, batch, "sum"), reduction="sum")
    with pytest.raises(UsageError, match=r"acc\.update"):
        acc.step()


@pytest.mark.parametrize("on_nonfinite", ["error", "skip"])
@pytest.mark.parametrize("evaluation", [0, 2])
def test_a_closure_that_meets_nan_makes_no_step(evaluation: int, on_nonfinite: str) -> None:
    """Not in its first evaluation, nor in its third, when parameters were moved twice."""
    model = model_of()
    lbfgs = torch.optim.LBFGS(model.parameters(), lr=0.5, max_iter=5)
    acc = GradientAccumulator(model, lbfgs, accumulation_steps=2, count=kept, on_nonfinite=on_nonfinite, progress=False)
    evaluations = 0

    def loss_of(batch: Batch) -> Tensor:
        nonlocal evaluations
        evaluations += 1
        loss = cross_entropy(model, batch, "sum")
        return loss * float("nan") if evaluations == 2 * evaluation + 2 else loss

    before = parameters(acc)
    if on_nonfinite == "error":
        with pytest.raises(NonFiniteGradient, match="micro-batch 1 is NaN"):
            acc.update(acc.window(BATCHES[:2]), loss_of, reduction="sum")
    else:
        update = acc.update(acc.window(BATCHES[:2]), loss_of, reduction="sum")
        assert "micro-batch 1 is NaN" in update.why_not and acc.updates == 0
    assert evaluations == 2 * evaluation + 2
    assert torch.equal(parameters(acc), before) and not any("d" in known for known in lbfgs.state.values())
    clean = acc.update(acc.window(BATCHES[:2]), loss_of, reduction="sum")
    assert clean.stepped and not torch.equal(parameters(acc), before)


def test_one_order_of_a_step(monkeypatch: pytest.MonkeyPatch) -> None:
    """Unscale, smooth, clip, step, schedule: once for a window."""
    told: list[str] = []

    class Smooth:
        def smooth(self, parameters: Any) -> None:
            told.append("smooth")

        def state_dict(self) -> dict[str, Any]:
            return {}

        def load_state_dict(self, state: dict[str, Any]) -> None: ...

    scaler = torch.amp.GradScaler("cpu", init_scale=8.0)
    model = model_of(torch.float32)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    schedule = torch.optim.lr_scheduler.ConstantLR(optimizer)
    from gradwright.training import update
    from gradwright.training.engines.engine import clip

    unscale = scaler.unscale_
    monkeypatch.setattr(update, "clip", lambda *rest: (told.append("clip"), clip(*rest))[1])  # type: ignore[func-returns-value]
    monkeypatch.setattr(scaler, "unscale_", lambda *rest: (told.append("unscale"), unscale(*rest))[1])  # type: ignore[func-returns-value]
    optimizer.register_step_pre_hook(lambda *rest: told.append("step"))
    monkeypatch.setattr(schedule, "step", lambda: told.append("schedule"))
    acc = GradientAccumulator(
        model, optimizer, accumulation_steps=3, count=kept, scaler=scaler, scheduler=schedule, max_norm=1.0,
        smoothing=Smooth(), progress=False,
    )  # fmt: skip
    for batch in acc.window(drawn([2, 1, 3], torch.float32, 0)):
        acc.backward(cross_entropy(model, batch, "sum"), reduction="sum")
    acc.step()
    assert told == ["unscale", "smooth", "clip", "step", "schedule"]
