"""``gw.check(reference=)`` of kernels written by hand in Triton, in half precision: the right ones, and wrong ones."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import nullcontext
from typing import Any

import pytest
import torch
from tests.devices import DEVICE, IS_DRY, MARKS, needs_triton
from tests.kernels.launch import interpreted
from torch import Tensor

import gradwright as gw
from gradwright.checking.report import CheckReport

pytestmark = [*MARKS, needs_triton]

of_half = pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
SHAPE = (3, 40) if IS_DRY else (33, 200)


@pytest.fixture(autouse=True)
def interpreter() -> Iterator[None]:
    with interpreted.libdevice() if IS_DRY else nullcontext():
        yield


def checked(name: str, reference: Callable[..., Tensor], inputs: int, dtype: torch.dtype, **how: Any) -> CheckReport:
    from tests.on_gpu import triton_kernels

    generator = torch.Generator().manual_seed(0)
    given = [torch.randn(SHAPE, generator=generator).to(DEVICE, dtype).requires_grad_() for _ in range(inputs)]
    return gw.check(getattr(triton_kernels, name), *given, reference=reference, **how)


def gated(x: Tensor, gate: Tensor) -> Tensor:
    return torch.nn.functional.silu(x) * gate


def softmax(x: Tensor) -> Tensor:
    return torch.softmax(x, -1)


def verdicts(report: CheckReport) -> list[str]:
    return [verdict.verdict for verdict in report.verdicts]


@of_half
def test_a_right_kernel_is_right(dtype: torch.dtype) -> None:
    report = checked("Gated", gated, 2, dtype)
    assert report.ok and verdicts(report) == ["right", "right"], str(report)


@of_half
def test_a_quarter_too_much_is_wrong_and_its_input_named(dtype: torch.dtype) -> None:
    report = checked("GatedByTooMuch", gated, 2, dtype, level="quick")
    assert verdicts(report) == ["right", "wrong"], str(report)
    (found, *_) = report.findings
    assert (found.severity, found.input) == ("error", "gate"), str(report)


def test_a_second_derivative_that_no_kernel_computes_is_reported() -> None:
    report = checked("GatedTwice", gated, 2, torch.float16)
    assert verdicts(report) == ["right", "right"], str(report)
    assert [found.code for found in report.findings] == ["GW106"]


@of_half
def test_a_right_kernel_of_rows_is_right(dtype: torch.dtype) -> None:
    report = checked("Softmax", softmax, 1, dtype, level="quick")
    assert report.ok and verdicts(report) == ["right"], str(report)


@of_half
def test_a_forgotten_term_is_wrong(dtype: torch.dtype) -> None:
    report = checked("SoftmaxUncoupled", softmax, 1, dtype, level="quick")
    assert verdicts(report) == ["wrong"], str(report)


@of_half
def test_a_forward_that_is_not_the_references_is_reported(dtype: torch.dtype) -> None:
    report = checked("Gated", lambda x, gate: gated(x, gate) * 1.1, 2, dtype, level="quick")
    assert not report.ok, str(report)


@of_half
def test_random_states_are_left_as_they_were(dtype: torch.dtype) -> None:
    def states() -> list[Tensor]:
        return [torch.get_rng_state(), *([] if IS_DRY else torch.cuda.get_rng_state_all())]

    torch.rand(3, device=DEVICE)
    before = states()
    checked("Gated", gated, 2, dtype, level="quick")
    for one, other in zip(states(), before, strict=True):
        assert torch.equal(one, other)


class Dropped(torch.autograd.Function):
    """Half of the entries, drawn on the device at each call."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        mask = torch.rand(x.shape, device=x.device) < 0.5
        ctx.save_for_backward(mask)
        return 2 * mask * x

    @staticmethod
    def backward(ctx: Any, cotangent: Tensor) -> Tensor:
        (mask,) = ctx.saved_tensors
        return 2 * mask * cotangent


def test_what_draws_on_the_device_draws_the_same_at_each_call_of_a_check() -> None:
    report = gw.check(Dropped, torch.randn(SHAPE, device=DEVICE, requires_grad=True), level="quick")
    assert report.ok and verdicts(report) == ["right"], str(report)
