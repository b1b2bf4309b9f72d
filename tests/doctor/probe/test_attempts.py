"""A trial in a child, for which what it would load is loaded before; or in this process, where a GPU is in use."""

import os

import pytest
import torch
from tests.stand_in_device import on_stand_in_device

from gradwright.doctor.probe import attempts
from gradwright.doctor.probe.attempts import Limits, attempt
from gradwright.ground.forked import torch_survives_fork


def test_what_every_child_would_import_is_imported_by_their_parent(monkeypatch: pytest.MonkeyPatch) -> None:
    imported = []
    monkeypatch.setattr(attempts, "import_what_cotangents_need", lambda: imported.append(os.getpid()))
    assert attempt(os.getpid, Limits(seconds=10)).value != os.getpid()
    assert imported == [os.getpid()]


@pytest.fixture
def gpu_in_use(monkeypatch: pytest.MonkeyPatch) -> None:
    """As after a script's first use of CUDA: a fork would be the end of it."""

    def refuse() -> int:
        raise AssertionError("forked with a GPU in use")

    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    monkeypatch.setattr(os, "fork", refuse)


@pytest.mark.usefixtures("gpu_in_use")
def test_with_a_gpu_in_use_a_trial_runs_in_this_process() -> None:
    assert not torch_survives_fork()
    assert attempt(os.getpid, Limits(seconds=10)).value == os.getpid()
    assert attempt(lambda: 1 / 0, Limits(seconds=10)).why == "ZeroDivisionError: division by zero"


@pytest.mark.usefixtures("gpu_in_use")
def test_with_a_gpu_in_use_a_trial_that_never_ends_is_ended_and_the_next_one_runs() -> None:
    def endless() -> None:
        while True:
            torch.ones(1).add_(1)

    assert attempt(endless, Limits(seconds=0.2)).how == "out of time"
    assert attempt(lambda: 5, Limits(seconds=10)).value == 5


@on_stand_in_device
def test_with_any_accelerator_in_use_there_is_no_fork() -> None:
    assert attempt(os.getpid, Limits(seconds=10)).value == os.getpid()
