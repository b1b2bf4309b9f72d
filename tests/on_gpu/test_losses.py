"""Losses on the device, where rows are long, precision is short and some rows do not count; ``test_queued`` has all."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from tests.devices import BACKEND, COMPILER, DEVICE, IS_DRY, MARKS
from tests.on_gpu.nearness import assert_near, copied
from torch import Tensor

import gradwright as gw
from gradwright import losses

pytestmark = [*MARKS]

ROWS, CLASSES = (6, 2_050) if IS_DRY else (64, 32_771)  # more than a tile, and no power of 2
IGNORED = -100


def rows_of_classes(dtype: torch.dtype, rows: int = ROWS, classes: int = CLASSES) -> tuple[Tensor, Tensor]:
    """Logits, and a class for each row, every third of which is ignored."""
    generator = torch.Generator().manual_seed(0)
    logits = copied(torch.randn(rows, classes, generator=generator) * 3, DEVICE, dtype)
    target = torch.randint(0, classes, (rows,), generator=generator)
    target[::3] = IGNORED
    return logits, target.to(DEVICE)


def assert_right(
    loss: Callable[..., Tensor], plain: Callable[..., Tensor], logits: Tensor, target: Tensor, tolerance: float
) -> None:
    wide, there = copied(logits), target.cpu()
    value, known = loss(logits, target), plain(wide, there)
    cotangent = torch.linspace(0.5, 2.0, known.numel(), dtype=torch.float64).view(known.shape)
    assert_near(value, known, tolerance, "the loss")
    (found,) = torch.autograd.grad(value, logits, cotangent.to(value))
    (truth,) = torch.autograd.grad(known, wide, cotangent)
    assert found.dtype is logits.dtype
    assert_near(found, truth, tolerance, "its gradient")


@pytest.mark.parametrize("options", [{}, {"reduction": "none"}, {"label_smoothing": 0.1}], ids=str)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16], ids=str)
def test_cross_entropy_of_a_vocabulary_is_that_of_float64(dtype: torch.dtype, options: dict[str, Any]) -> None:
    logits, target = rows_of_classes(dtype)
    tolerance = 5e-6 if dtype is torch.float32 else 2 * torch.finfo(dtype).eps
    assert_right(
        lambda x, y: losses.cross_entropy(x, y, **options),
        lambda x, y: F.cross_entropy(x, y, **options),
        logits,
        target,
        tolerance,
    )


def test_a_loss_that_forgets_the_ignored_rows_would_be_seen() -> None:
    with pytest.raises(AssertionError, match="the loss"):
        assert_right(
            lambda x, y: losses.cross_entropy(x, y.clamp_min(0)), F.cross_entropy, *rows_of_classes(torch.float32), 5e-6
        )


def test_where_every_row_is_ignored_the_loss_and_its_gradient_are_zero() -> None:
    logits, target = rows_of_classes(torch.float32, 3, 40)
    loss = losses.cross_entropy(logits, target.fill_(IGNORED))
    loss.backward()
    assert loss.item() == 0 and logits.grad is not None and not logits.grad.any()


PLANNED = {
    "cross entropy": (losses.CrossEntropyLoss, rows_of_classes),
    "focal": (losses.FocalLoss, lambda dtype: rows_of_classes(dtype, 50, 7)),
    "dice": (lambda: losses.DiceLoss(mode="multiclass"), lambda dtype: rows_of_classes(dtype, 50, 7)),
}


@pytest.mark.parametrize("name", PLANNED)
def test_a_kernel_of_the_device_makes_it(name: str) -> None:
    make, drawn = PLANNED[name]
    logits, target = drawn(torch.float32)
    plan = make().plan(logits, target.clamp_min(0))
    assert (plan.backend, plan.is_fallback) == (BACKEND, False), f"{plan.backend}: {plan.why}\n{plan}"


def test_second_derivatives_are_those_of_float64() -> None:
    logits, target = rows_of_classes(torch.float32, 5, 11)

    def twice(loss: Callable[..., Tensor], x: Tensor, y: Tensor) -> Tensor:
        (slope,) = torch.autograd.grad(loss(x, y), x, create_graph=True)
        return torch.autograd.grad(slope.square().sum(), x)[0]

    known = twice(F.cross_entropy, copied(logits), target.cpu())
    assert_near(twice(losses.cross_entropy, logits, target), known, 2e-5, "the second derivative")


def test_compiled_it_is_the_same() -> None:
    torch._dynamo.reset()
    logits, target = rows_of_classes(torch.float32, 20, 31)
    compiled = torch.compile(lambda x, y: losses.cross_entropy(2 * x, y), backend=COMPILER)
    assert_right(compiled, lambda x, y: F.cross_entropy(2 * x, y), logits, target, 1e-5)


class Weighed(torch.nn.Module):
    """A loss with a tensor of its own on the device; ``slope``: a factor of what its gradient should be."""

    def __init__(self, slope: float) -> None:
        super().__init__()
        self.register_buffer("weight", torch.linspace(0.5, 2.0, 5, device=DEVICE))
        self.slope = slope

    def forward(self, prediction: Tensor, target: Tensor) -> Tensor:
        squares = (prediction - target).square() * self.weight
        return (squares.detach() + self.slope * (squares - squares.detach())).mean()


@pytest.mark.parametrize(("slope", "is_right"), [(1.0, True), (0.5, False)])
def test_a_loss_of_ones_own_is_checked_where_its_tensors_lie(slope: float, is_right: bool) -> None:
    generator = torch.Generator().manual_seed(0)
    prediction, target = (torch.randn(4, 5, generator=generator).to(DEVICE) for _ in range(2))
    report = gw.check_loss(Weighed(slope), prediction, target, level="quick")
    assert report.ok is is_right, str(report)
