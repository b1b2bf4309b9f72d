"""Losses on a GPU are read late and together. There is none here: losses of the CPU stand in for them."""

import math
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from gradwright.doctor.observe import late_losses
from gradwright.doctor.observe.clock import Clock
from gradwright.doctor.observe.watch import Watch
from gradwright.doctor.session.facts import LossValues
from gradwright.doctor.session.journal import Journal, fold

VALUES = [3.0, 2.0, -1.0, *(1.0 / step for step in range(1, 80)), math.inf, 0.5, math.nan]


@pytest.fixture
def losses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., LossValues]:
    def watched(is_late: Callable[[torch.Tensor], bool], during: Callable[[Watch], None] = lambda _: None):
        monkeypatch.setattr(late_losses, "is_read_later", is_late)
        path = tmp_path / f"journal{len(list(tmp_path.iterdir()))}"
        with Journal(path) as journal, Watch(journal, Clock()) as watch:
            weight = torch.ones(3, requires_grad=True)
            for value in VALUES:
                loss = weight.sum() / 3 * value
                loss.backward()
                with torch.no_grad():
                    loss.zero_()  # what was kept is no view of it
                during(watch)
        (fact,) = fold(path).of(LossValues)
        return fact

    return watched


def test_what_is_told_is_the_same_as_of_losses_that_are_read_at_once(losses: Callable) -> None:
    at_once = losses(lambda loss: False)
    late = losses(lambda loss: True)
    assert repr(late) == repr(at_once)
    assert (late.calls, late.first_negative_step, late.first_nonfinite_step) == (len(VALUES), 2, 82)
    assert (late.first, late.first_nonfinite) == (3.0, "inf")


def test_losses_of_one_call_on_two_devices_stay_in_their_order(losses: Callable) -> None:
    turn = iter(range(len(VALUES)))
    assert repr(losses(lambda loss: next(turn) % 3 != 0)) == repr(losses(lambda loss: False))


def test_nothing_is_read_but_when_they_are_many_and_at_the_end(
    losses: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads: list[int] = []
    read_all = late_losses.LateLosses.read_all

    def counted(self: late_losses.LateLosses) -> None:
        reads.append(len(self._kept))
        read_all(self)

    monkeypatch.setattr(late_losses.LateLosses, "read_all", counted)
    known: list[int] = []

    def look(watch: Watch) -> None:
        known.append(sum(site.losses for site in watch.gradients.sites.values()))

    losses(lambda loss: True, look)
    assert reads == [late_losses.KEPT, len(VALUES) - late_losses.KEPT]
    assert known == [0] * (late_losses.KEPT - 1) + [late_losses.KEPT] * (len(VALUES) - late_losses.KEPT + 1)


def test_dtypes_are_read_apart_and_told_in_order() -> None:
    told: list[tuple[str, float]] = []
    late = late_losses.LateLosses[str](lambda site, number: told.append((site, number)))
    late.keep("a", torch.tensor([1e300], dtype=torch.float64))
    late.keep("b", torch.tensor(2.0))
    late.keep("a", torch.tensor(0.5, dtype=torch.bfloat16, requires_grad=True))
    assert told == []
    late.read_all()
    late.read_all()
    assert told == [("a", 1e300), ("b", 2.0), ("a", 0.5)]


def test_a_device_that_failed_is_a_fault_of_the_watching_and_not_of_the_script(
    losses: Callable, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def stack(values: object) -> None:
        raise RuntimeError("CUDA error: device-side assert triggered")

    monkeypatch.setattr(torch, "stack", stack)
    gaps = {}
    for late in (True, False):
        monkeypatch.setattr(late_losses, "is_read_later", lambda loss, late=late: late)
        with Journal(tmp_path / f"journal {late}") as journal, Watch(journal, Clock()):
            torch.ones(2, requires_grad=True).sum().backward()
        gaps[late] = [gap.what for gap in fold(tmp_path / f"journal {late}").not_examined]
    # In this process other tests have left Functions that nobody called.
    assert sorted(gaps[True]) == sorted([*gaps[False], "part of what the script did"])


def test_only_a_plain_real_number_of_a_gpu_is_read_later() -> None:
    assert not late_losses.is_read_later(torch.tensor(1.0))
    assert not late_losses.is_read_later(torch.empty((), device="meta"))
