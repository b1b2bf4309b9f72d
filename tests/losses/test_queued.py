"""Losses where no number is looked at: as on an accelerator, here on a CPU that is taken for one, and on a device."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext

import pytest
import torch
from tests import stand_in_device
from tests.devices import CUDA, IS_DRY
from tests.laws import Laws
from tests.losses.case import Case
from tests.losses.table import CASES
from tests.losses.unread import no_number_is_looked_at
from tests.stand_in_device import counted_waits, on_stand_in_device
from torch import Tensor

from gradwright import losses
from gradwright.errors import UsageError
from gradwright.losses.common import rowwise
from gradwright.losses.segmentation import of_sums


@pytest.fixture
def nothing_is_read() -> Iterator[None]:
    with no_number_is_looked_at():
        yield


def _differentiated(loss, inputs: list[Tensor], wanted: int) -> list[Tensor]:
    value = loss(*inputs)
    cotangent = torch.linspace(0.5, 2.0, value.numel(), dtype=value.dtype).view(value.shape).to(value.device)
    return [value.detach(), *torch.autograd.grad(value, inputs[:wanted], cotangent)]


def assert_unfused(
    case: Case, device: str, around: Callable[[], AbstractContextManager[list[str] | None]] = nullcontext
) -> list[str] | None:
    """Value and gradients of the loss on the device against the unfused one in float64; what ``around`` it gave."""
    drawn = case.draw(torch.Generator().manual_seed(0), torch.float32)
    inputs = [t.to(device).requires_grad_(place < case.wanted) for place, t in enumerate(drawn)]
    wide = [t.double() if t.is_floating_point() else t for t in drawn]
    wide = [t.requires_grad_(place < case.wanted) for place, t in enumerate(wide)]
    known = _differentiated(case.unfused, wide, case.wanted)
    with around() as seen:
        found = _differentiated(case.loss, inputs, case.wanted)
    for one, other in zip(found, known, strict=True):
        scale = other.abs().max().item() if other.numel() else 0.0
        torch.testing.assert_close(one.cpu().double(), other, rtol=case.tolerance, atol=case.tolerance * scale)
    return seen


@pytest.mark.parametrize("device", [CUDA])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_on_a_device_value_and_gradients_are_those_of_the_unfused_loss(case: Case, device: str) -> None:
    assert_unfused(case, device, no_number_is_looked_at if IS_DRY else nullcontext)


def waits_for_nothing(case: Case) -> Callable[[str], None]:
    def is_right_and_waits_for_nothing(device: str) -> None:
        assert assert_unfused(case, device, counted_waits) == []

    is_right_and_waits_for_nothing.__name__ = str(case)
    return is_right_and_waits_for_nothing


@on_stand_in_device
def test_on_a_device_that_stands_in_for_an_accelerator_every_case_is_right_and_waits_for_nothing() -> None:
    every_case = Laws[str]()
    for case in CASES:
        every_case(waits_for_nothing(case))
    every_case.hold(str(stand_in_device.SECOND))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@on_stand_in_device
def test_under_autocast_a_loss_is_that_of_its_half_precision_input(dtype: torch.dtype) -> None:
    for kind, device in (("cpu", torch.device("cpu")), ("standin", stand_in_device.SECOND)):
        x, w = torch.randn(6, 4, device=device), torch.randn(4, 3, device=device).requires_grad_()
        y = torch.tensor([0, 1, 2, 0, 1, 2]).to(device)
        with torch.autocast(kind, dtype=dtype):
            z = x @ w
            values = [losses.cross_entropy(z, y), losses.focal_loss(z, y), losses.dice_loss(z, y, mode="multiclass")]
        sum(values).backward()
        wide = z.detach().float().requires_grad_()
        known = [losses.cross_entropy(wide, y), losses.focal_loss(wide, y), losses.dice_loss(wide, y, "multiclass")]
        assert z.dtype is dtype and w.grad is not None and w.grad.isfinite().all()
        torch.testing.assert_close([value.float() for value in values], known, rtol=1e-2, atol=1e-2)


@on_stand_in_device
def test_a_target_on_another_device_is_refused_by_name() -> None:
    x = torch.randn(6, 3, device=stand_in_device.SECOND)
    for elsewhere in (torch.zeros(6, dtype=torch.long), torch.zeros(6, dtype=torch.long, device=stand_in_device.FIRST)):
        for loss in (losses.cross_entropy, losses.focal_loss, lambda x, y: losses.dice_loss(x, y, mode="multiclass")):
            with pytest.raises((RuntimeError, UsageError), match=f"{elsewhere.device}"):
                loss(x, elsewhere)


@pytest.mark.usefixtures("nothing_is_read")
def test_rows_and_sums_are_queued(monkeypatch: pytest.MonkeyPatch) -> None:
    used = []
    for kind in (rowwise._QueuedRows, of_sums._QueuedSums):
        apply = kind.apply
        monkeypatch.setattr(kind, "apply", lambda *given, kind=kind, apply=apply: used.append(kind) or apply(*given))  # type: ignore[func-returns-value]
    x = torch.randn(4, 5, 6, requires_grad=True)
    losses.cross_entropy(x, torch.zeros(4, 6, dtype=torch.long)).backward()
    losses.dice_loss(x, torch.zeros(4, 6, dtype=torch.long), mode="multiclass").backward()
    assert used == [rowwise._QueuedRows, of_sums._QueuedSums]


@pytest.mark.usefixtures("nothing_is_read")
@pytest.mark.parametrize("loss", [losses.cross_entropy, lambda x, y: losses.dice_loss(x, y, mode="multiclass")])
def test_a_class_there_is_none_of_makes_the_loss_nan(loss) -> None:
    x = torch.randn(4, 5, 6)
    assert loss(x, torch.full((4, 6), 2)).isfinite()
    assert loss(x, torch.full((4, 6), 5)).isnan()


@pytest.mark.usefixtures("nothing_is_read")
def test_second_derivatives_are_there() -> None:
    x = torch.randn(3, 4, dtype=torch.float64, requires_grad=True)
    y = torch.tensor([0, 3, 1])
    assert torch.autograd.gradgradcheck(lambda z: losses.cross_entropy(z, y), x)
    t = torch.rand(3, 4, dtype=torch.float64)
    assert torch.autograd.gradgradcheck(lambda z: losses.dice_loss(z, t), x)
