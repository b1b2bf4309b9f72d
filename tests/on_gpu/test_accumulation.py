"""``GradientAccumulator`` on the device, with a GradScaler: micro-batches make the step of the big batch, or none."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from tests.devices import DEVICE, MARKS
from tests.on_gpu.nearness import assert_near
from tests.training.token_model import Batch, cross_entropy, drawn, joined, kept, model_of
from torch import Tensor, nn

from gradwright.training import GradientAccumulator

pytestmark = [*MARKS]

SIZES = (3, 1, 4)


def batches(seed: int = 0) -> list[Batch]:
    """Micro-batches on the device, in float32, with as many items as they please."""
    return [(x.to(DEVICE), y.to(DEVICE)) for x, y in drawn(SIZES, torch.float32, seed)]


def net() -> nn.Module:
    return model_of(torch.float32).to(DEVICE)


def accumulator(model: nn.Module, **options: Any) -> GradientAccumulator:
    optimizer = torch.optim.SGD(model.parameters(), 0.5, momentum=0.9)
    asked: dict[str, Any] = {"accumulation_steps": len(SIZES), "count": kept, "progress": False} | options
    return GradientAccumulator(model, optimizer, **asked)


def take_steps(acc: GradientAccumulator, steps: int, *, autocast: torch.dtype | None = None) -> None:
    for step in range(steps):
        for batch in acc.window(batches(step)):
            with torch.autocast(DEVICE, autocast or torch.bfloat16, enabled=autocast is not None):
                loss = cross_entropy(acc.model, batch, "sum")
            acc.backward(loss, reduction="sum")
        update = acc.step()
        assert update.stepped, update.why_not


def steps_on_the_whole_batch(steps: int, max_norm: float | None = None) -> nn.Module:
    """By hand, in float64 on a CPU."""
    model = model_of(torch.float64)
    optimizer = torch.optim.SGD(model.parameters(), 0.5, momentum=0.9)
    for step in range(steps):
        optimizer.zero_grad()
        cross_entropy(model, joined(drawn(SIZES, torch.float64, step)), "mean").backward()
        if max_norm is not None:
            torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm)
        optimizer.step()
    return model


def assert_same(model: nn.Module, other: nn.Module, tolerance: float) -> None:
    for (name, one), truth in zip(model.named_parameters(), other.parameters(), strict=True):
        assert_near(one, truth, tolerance, f"the parameter {name}")


@pytest.mark.parametrize("options", [{}, {"max_norm": 0.1}, {"accumulate_dtype": torch.float32}], ids=str)
@pytest.mark.parametrize("scaled", [True, False], ids=["scaled", "not scaled"])
def test_micro_batches_make_the_steps_of_the_whole_batch(scaled: bool, options: dict[str, Any]) -> None:
    model = net()
    scaler = torch.amp.GradScaler(DEVICE, init_scale=2.0**12) if scaled else None
    take_steps(accumulator(model, scaler=scaler, **options), 3)
    assert_same(model, steps_on_the_whole_batch(3, options.get("max_norm")), 1e-5)


def test_the_mean_of_means_would_be_seen() -> None:
    model = net()
    acc = accumulator(model, normalize="steps", count=None)
    for batch in acc.window(batches()):
        acc.backward(cross_entropy(model, batch, "mean"), reduction="mean")
    acc.step()
    with pytest.raises(AssertionError, match="the parameter"):
        assert_same(model, steps_on_the_whole_batch(1), 1e-5)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_under_autocast_they_do_so_within_its_precision(dtype: torch.dtype) -> None:
    model = net()
    take_steps(accumulator(model, scaler=torch.amp.GradScaler(DEVICE, init_scale=2.0**10)), 3, autocast=dtype)
    assert_same(model, steps_on_the_whole_batch(3), 8 * torch.finfo(dtype).eps)


def test_a_window_that_overflows_is_left_out_as_one_and_the_next_step_is_right() -> None:
    model = net()
    scaler = torch.amp.GradScaler(DEVICE, init_scale=2.0**12)
    acc = accumulator(model, scaler=scaler)
    before = copy.deepcopy(model)
    for step, batch in enumerate(acc.window(batches())):
        loss = cross_entropy(model, batch, "sum")
        acc.backward(loss * 1e38 if step == 1 else loss, reduction="sum")
    update = acc.step()
    assert not update.stepped and "scaler" in update.why_not
    assert acc.updates == 0 and scaler.get_scale() == 2.0**11  # lowered once, not for each micro-batch
    for one, other in zip(model.parameters(), before.parameters(), strict=True):
        assert torch.equal(one, other)
    take_steps(acc, 1)
    assert_same(model, steps_on_the_whole_batch(1), 1e-5)


def test_sixteen_bit_gradients_are_summed_up_in_float32() -> None:
    def gradient(model: nn.Module, **options: Any) -> Tensor:
        acc = accumulator(model, accumulation_steps=200, normalize="samples", count=None, **options)
        for x in acc.window(
            [torch.full((1, 4), 1.0 + k / 128, device=DEVICE, dtype=torch.bfloat16) for k in range(99)]
        ):
            acc.backward(model(x).sum(), reduction="sum")
        acc.step()
        grad = next(iter(model.parameters())).grad
        assert grad is not None
        return grad

    def layer() -> nn.Module:
        return nn.Linear(4, 1).to(DEVICE, torch.bfloat16)

    truth = torch.full((1, 4), sum(1.0 + k / 128 for k in range(99)) / 99, dtype=torch.float64)
    assert_near(gradient(layer(), accumulate_dtype=torch.float32), truth, 2**-8, "summed up in float32")
    with pytest.raises(AssertionError, match="summed up in bfloat16"):
        assert_near(gradient(layer()), truth, 2**-8, "summed up in bfloat16")
