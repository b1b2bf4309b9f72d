"""A training step that is queued whole: what Gradwright puts into it waits for no device."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

import pytest
import torch
from tests.devices import DEVICE, IS_DRY, MARKS
from tests.losses.case import Case
from tests.losses.table import CASES
from tests.on_gpu.waiting import nobody_waits
from torch import Tensor, nn

import gradwright as gw
from gradwright.training import GradientAccumulator

pytestmark = [*MARKS]

ROWS, COLUMNS = (6, 5) if IS_DRY else (256, 128)


def drawn(*shape: int) -> Tensor:
    return torch.randn(*shape, device=DEVICE, requires_grad=True)


def nobody_waits_on_cuda() -> AbstractContextManager[None]:
    """For what looks at its numbers on a CPU, where that is free."""
    return nullcontext() if IS_DRY else nobody_waits()


WAITS: dict[str, Callable[[Tensor], object]] = {
    "item": lambda x: x.sum().item(),
    "if": lambda x: bool(x.sum() > 0),
    "a mask": lambda x: x[x > 0],
    "a number for the device": lambda x: torch.tensor(1.0, device=x.device),
}


@pytest.mark.parametrize("wait", WAITS.values(), ids=WAITS)
def test_a_planted_wait_is_refused(wait: Callable[[Tensor], object]) -> None:
    x = drawn(ROWS)
    with pytest.raises(RuntimeError, match="synchronizing"), nobody_waits():
        wait(x)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_no_loss_waits(case: Case) -> None:
    given = case.draw(torch.Generator().manual_seed(0), torch.float32)
    inputs = [t.to(DEVICE).requires_grad_(place < case.wanted) for place, t in enumerate(given)]

    def step() -> None:
        value = case.loss(*inputs)
        torch.autograd.grad(value, inputs[: case.wanted], torch.ones_like(value))

    if IS_DRY and str(case).startswith("linear cross entropy"):
        pytest.skip("a dry run: it looks where its tensors lie, and on a CPU at the rows that count")
    if not IS_DRY:
        step()  # the first call compiles
    with nobody_waits():
        step()


@pytest.mark.parametrize("reduction", ["none", "sum", "mean"])
def test_no_formula_waits(reduction: str) -> None:
    huber = gw.elementwise("where(abs(e) < d, 0.5*e*e, d*(abs(e) - 0.5*d))", reduction=reduction)  # type: ignore[arg-type]
    e = drawn(ROWS, COLUMNS)
    mask = e.detach() > -1

    def step() -> None:
        value = huber(e, 1.5, mask=mask)
        torch.autograd.grad(value, e, torch.ones_like(value))

    step()
    with nobody_waits_on_cuda():
        step()


def test_no_custom_gradient_waits() -> None:
    cubed = gw.custom_gradient(lambda x: x**3, lambda grad_output, x: 3 * x**2 * grad_output)
    x = drawn(ROWS, COLUMNS)
    cubed(x).sum().backward()  # the first call is watched
    with nobody_waits():
        cubed(x).sum().backward()


def test_no_tap_waits() -> None:
    model = nn.Linear(COLUMNS, 4).to(DEVICE)
    x = drawn(ROWS, COLUMNS)
    model(x).sum().backward()
    with gw.taps() as seen:
        gw.tap("hidden", model(x)).square().sum().backward()
        with nobody_waits_on_cuda():
            gw.tap("hidden", model(x)).square().sum().backward()
    assert {(row.name, row.direction) for row in seen.rows} == {("hidden", "forward"), ("hidden", "backward")}


def test_no_window_of_an_accumulator_waits_where_nobody_asks_for_its_gradient() -> None:
    model = nn.Sequential(nn.Linear(COLUMNS, 8), nn.Tanh(), nn.Linear(8, 1)).to(DEVICE)
    optimizer = torch.optim.SGD(model.parameters(), 0.01, momentum=0.9)
    acc = GradientAccumulator(
        model,
        optimizer,
        micro_batch_size=ROWS // 2,
        normalize="samples",
        max_norm=None if IS_DRY else 1.0,  # on a CPU its norm is looked at
        on_nonfinite="ignore",
        progress=False,
    )
    batches = [drawn(ROWS, COLUMNS).detach() for _ in range(2)]

    def train() -> None:
        for window in acc.windows(batches):
            for x in window:
                acc.backward(model(x).square().sum(), reduction="sum")
            acc.step()

    train()
    with nobody_waits():
        train()
    assert acc.updates == 4
