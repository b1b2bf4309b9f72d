"""A script on an accelerator is watched without a wait at each step, and none is begun to be used for the watching."""

import platform
import threading
from pathlib import Path

import pytest
import torch
from tests import stand_in_device
from tests.stand_in_device import counted_waits, on_stand_in_device

from gradwright.doctor.observe import late_losses
from gradwright.doctor.observe.clock import Clock
from gradwright.doctor.observe.watch import Watch, environment
from gradwright.doctor.session.facts import LossValues, OptimizerSteps
from gradwright.doctor.session.journal import Journal, fold


class Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x**2

    @staticmethod
    def backward(ctx, cotangent):
        (x,) = ctx.saved_tensors
        return 2 * x * cotangent


def trained(journal: Path, device: torch.device, *, steps: int = 6, clears: bool = True) -> list[list[str]]:
    """What each step of a watched training waited for."""
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.BatchNorm1d(8), torch.nn.ReLU(), torch.nn.Linear(8, 3))
    optimizer = torch.optim.SGD(net.to(device).parameters(), lr=0.1)
    x, y = torch.randn(6, 4), torch.randint(3, (6,))
    waited = []
    with Journal(journal) as written, Watch(written, Clock()):
        for _ in range(steps):
            with counted_waits() as waits:
                if clears:
                    optimizer.zero_grad()
                there = x.to(device, non_blocking=True)
                loss = torch.nn.functional.cross_entropy(Square.apply(net(there)), y.to(device, non_blocking=True))
                loss.backward()
                optimizer.step()
            waited.append(waits)
    return waited


@on_stand_in_device
def test_after_the_first_step_watching_waits_for_nothing(tmp_path: Path) -> None:
    first, *others = trained(tmp_path / "journal", stand_in_device.SECOND)
    assert others == [[]] * 5 and "synchronize" not in first


@on_stand_in_device
def test_in_the_capture_of_a_cuda_graph_watching_looks_at_nothing(tmp_path: Path) -> None:
    stand_in_device.begin_a_capture()
    assert trained(tmp_path / "journal", stand_in_device.SECOND) == [[]] * 6
    assert [steps.steps for steps in fold(tmp_path / "journal").of(OptimizerSteps)] == [6]


@on_stand_in_device
def test_what_watching_launches_goes_into_the_stream_of_the_scripts_thread(tmp_path: Path) -> None:
    trained(tmp_path / "journal", stand_in_device.SECOND)
    assert {threading.get_ident()} == stand_in_device.THREADS


@on_stand_in_device
def test_losses_and_gradients_that_are_never_cleared_are_reported_as_on_a_cpu(tmp_path: Path) -> None:
    found = []
    for number, device in enumerate((torch.device("cpu"), stand_in_device.SECOND)):
        trained(tmp_path / f"journal{number}", device, clears=False)
        report = fold(tmp_path / f"journal{number}")
        (steps,), (losses,) = report.of(OptimizerSteps), report.of(LossValues)
        found.append((steps.steps, steps.stale_steps, steps.first_stale_step, losses.calls, round(losses.last, 4)))
    assert found[0] == found[1] and found[0][1] > 0


@on_stand_in_device
def test_a_gradient_that_is_zero_by_itself_says_nothing_about_clearing(tmp_path: Path) -> None:
    weight = torch.ones(3, device=stand_in_device.SECOND, requires_grad=True)
    optimizer = torch.optim.SGD([weight], lr=0.1)
    with Journal(tmp_path / "journal") as journal, Watch(journal, Clock()):
        for _ in range(4):
            (0 * weight).sum().backward()
            optimizer.step()
    assert [steps.stale_steps for steps in fold(tmp_path / "journal").of(OptimizerSteps)] == [0]


@on_stand_in_device
def test_a_loss_on_any_accelerator_is_read_later() -> None:
    assert late_losses.is_read_later(torch.ones((), device=stand_in_device.SECOND))
    assert not late_losses.is_read_later(torch.ones((), device=stand_in_device.SECOND, dtype=torch.complex64))
    stand_in_device.begin_a_capture()
    assert not late_losses.is_read_later(torch.ones((), device=stand_in_device.SECOND))


def test_no_gpu_is_begun_to_be_used_to_name_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    in_use = False

    def name(device: object = None) -> str:
        assert in_use, "to ask for a GPU's name is to begin to use it"
        return "a GPU"

    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: in_use)
    monkeypatch.setattr(torch.cuda, "get_device_name", name)
    assert environment().device == (platform.processor() or platform.machine())
    with Journal(tmp_path / "journal") as journal, Watch(journal, Clock()):
        in_use = True  # by the script
    assert fold(tmp_path / "journal").environment.device == "a GPU"


def test_no_copy_of_a_pinned_tensor_is_pinned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("nothing of the script's is pinned by us")

    x = torch.randn(4, requires_grad=True)
    monkeypatch.setattr(torch.Tensor, "is_pinned", lambda tensor, *_: tensor.data_ptr() == x.data_ptr())
    monkeypatch.setattr(torch.Tensor, "pin_memory", refuse)
    with Journal(tmp_path / "journal") as journal, Watch(journal, Clock()) as watch:
        Square.apply(x).sum().backward()
    ((use, kept),) = [(use, kept) for use in watch.functions.tried() for kept in watch.store.of(use.subject.id)]
    assert use.function is Square and torch.equal(kept.args[0], x) and not kept.args[0].is_pinned()
