"""Where the device has too little memory: smaller micro-batches, a size that fits, words; and the process lives on."""

from __future__ import annotations

import gc
import warnings
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from tests.devices import DEVICE, IS_DRY, MARKS, only_on_cuda
from tests.on_gpu.nearness import assert_near
from tests.training.token_model import cross_entropy, drawn, flat, full_gradient, kept, model_of
from torch import Tensor, nn

import gradwright as gw
from gradwright.training import GradientAccumulator, find_micro_batch_size

pytestmark = [*MARKS]

NOWHERE = 1 << 50  # bytes that no machine has
FREE = 256 << 20  # bytes that are left to a test that runs out of them


def ask_for_too_much() -> None:
    torch.empty(NOWHERE, dtype=torch.uint8, device=DEVICE)


@pytest.fixture
def little_memory() -> Iterator[None]:
    """The process may allocate no more than FREE bytes beyond what it has."""
    gc.collect()
    torch.cuda.empty_cache()
    whole = torch.cuda.get_device_properties(0).total_memory
    torch.cuda.set_per_process_memory_fraction((torch.cuda.memory_reserved() + FREE) / whole)
    yield
    torch.cuda.set_per_process_memory_fraction(1.0)
    torch.cuda.empty_cache()


class Hungry:
    """A loss that asks the device's allocator for what it does not have, above ``room`` samples."""

    def __init__(self, model: nn.Module, room: int) -> None:
        self.model, self.room, self.sizes = model, room, list[int]()

    def __call__(self, batch: tuple[Tensor, Tensor]) -> Tensor:
        self.sizes.append(len(batch[0]))
        loss = cross_entropy(self.model, batch, "sum")
        if len(batch[0]) > self.room:
            ask_for_too_much()
        return loss


def test_an_update_goes_on_with_half_a_micro_batch_and_its_gradient_is_the_whole_batchs() -> None:
    batches = drawn([24], torch.float32, 0)
    model = model_of(torch.float32).to(DEVICE)
    sgd = torch.optim.SGD(model.parameters(), 0.0)
    acc = GradientAccumulator(model, sgd, micro_batch_size=16, count=kept, progress=False)
    loss_of = Hungry(model, room=5)
    with pytest.warns(UserWarning, match="ran out of memory with micro_batch_size=16"):
        warnings.filterwarnings("ignore", "window 0 ran out of memory with micro_batch_size=8")
        for window in acc.windows([(x.to(DEVICE), y.to(DEVICE)) for x, y in batches]):
            assert acc.update(window, loss_of, reduction="sum").stepped
    assert loss_of.sizes == [16, 8, *[4] * 6] and acc.micro_batch_size == 4
    assert_near(flat(model.parameters()), full_gradient(drawn([24], torch.float64, 0), torch.float64), 1e-5, "it")


def test_a_size_that_fits_is_found_by_what_does_not() -> None:
    model = model_of(torch.float32).to(DEVICE)
    (batch,) = drawn([24], torch.float32, 0)
    on_device = (batch[0].to(DEVICE), batch[1].to(DEVICE))
    limit = 1 << 60 if IS_DRY else None  # on a CPU it has to be said
    assert find_micro_batch_size(model, Hungry(model, room=11), on_device, max_bytes=limit) == 11


@only_on_cuda
@pytest.mark.usefixtures("little_memory")
def test_the_size_found_fits_into_what_is_left_and_twice_of_it_does_not() -> None:
    net = nn.Sequential(nn.Linear(1024, 4096), nn.Tanh(), nn.Linear(4096, 1)).to(DEVICE)
    batch = torch.randn(16_384, 1024, device=DEVICE)

    def loss_of(x: Tensor) -> Tensor:
        return net(x).square().sum()

    size = find_micro_batch_size(net, loss_of, batch)
    assert 64 < size < len(batch)
    loss_of(batch[:size]).backward()
    with pytest.raises(torch.OutOfMemoryError):
        loss_of(batch[: 2 * size]).backward()
    assert torch.ones(3, device=DEVICE).sum().item() == 3


class Starved(torch.autograd.Function):
    """Its backward asks for more than there is."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return 2 * x

    @staticmethod
    def backward(ctx: Any, cotangent: Tensor) -> Tensor:
        ask_for_too_much()
        return 2 * cotangent


class Doubled(Starved):
    @staticmethod
    def backward(ctx: Any, cotangent: Tensor) -> Tensor:
        return 2 * cotangent


def test_a_check_says_so_and_the_next_one_judges() -> None:
    x = torch.randn(5, device=DEVICE, requires_grad=True)
    report = gw.check(Starved, x, level="quick")
    assert [verdict.verdict for verdict in report.verdicts] != ["right"], str(report)
    assert "memory" in str(report), str(report)
    assert [verdict.verdict for verdict in gw.check(Doubled, x, level="quick").verdicts] == ["right"]


def test_the_doctor_says_so_and_the_process_lives_on() -> None:
    x = torch.randn(5, device=DEVICE, requires_grad=True)
    printed = str(gw.diagnose(Starved, x))
    assert "memory" in printed, printed
    assert (x * 2).sum().isfinite()


@only_on_cuda
@pytest.mark.usefixtures("little_memory")
def test_a_jacobian_that_is_larger_than_what_is_left_raises_and_with_max_bytes_fits() -> None:
    net = nn.Sequential(nn.Linear(64, 512), nn.Tanh(), nn.Linear(512, 64)).to(DEVICE)
    z = torch.randn(4096, 64, device=DEVICE, requires_grad=True)  # its Jacobian takes 64 MiB
    y = net(z)
    with pytest.raises(torch.OutOfMemoryError):
        gw.batch_jacobian(y, wrt=z, mode="reverse", chunk_size=64)  # 64 cotangents of [4096, 512] alone: 512 MiB
    made = gw.batch_jacobian(y, wrt=z, max_bytes=128 << 20)
    assert made.shape == (4096, 64, 64) and bool(made.isfinite().all())
