"""Losses where no number is looked at: as on an accelerator, here on a CPU that is taken for one, and on a device."""

from collections.abc import Iterator
from contextlib import nullcontext

import pytest
import torch
from tests.devices import CUDA, IS_DRY
from tests.losses.case import Case
from tests.losses.table import CASES
from tests.losses.unread import no_number_is_looked_at
from torch import Tensor

from gradwright import losses
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


@pytest.mark.parametrize("device", [CUDA])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_on_a_device_value_and_gradients_are_those_of_the_unfused_loss(case: Case, device: str) -> None:
    drawn = case.draw(torch.Generator().manual_seed(0), torch.float32)
    inputs = [t.to(device).requires_grad_(place < case.wanted) for place, t in enumerate(drawn)]
    wide = [t.double() if t.is_floating_point() else t for t in drawn]
    wide = [t.requires_grad_(place < case.wanted) for place, t in enumerate(wide)]
    known = _differentiated(case.unfused, wide, case.wanted)
    with no_number_is_looked_at() if IS_DRY else nullcontext():
        found = _differentiated(case.loss, inputs, case.wanted)
    for one, other in zip(found, known, strict=True):
        scale = other.abs().max().item() if other.numel() else 0.0
        torch.testing.assert_close(one.cpu().double(), other, rtol=case.tolerance, atol=case.tolerance * scale)


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
