"""Where a session was made: the GPU is named once the script has put it in use, and never put in use by the doctor."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from gradwright.doctor.observe.clock import Clock
from gradwright.doctor.observe.watch import Watch
from gradwright.doctor.session.journal import Journal, fold


@pytest.fixture
def device_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[list[bool]], None]], str]:
    """On a machine with a GPU, what the session says of its device after some script."""
    in_use: list[bool] = []

    def name() -> str:
        in_use.append(True)  # as torch does it: to ask is to use
        return "the GPU"

    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: bool(in_use))
    monkeypatch.setattr(torch.cuda, "get_device_name", name)

    def run(script: Callable[[list[bool]], None]) -> str:
        with Journal(tmp_path / "journal") as journal, Watch(journal, Clock()):
            script(in_use)
        return fold(tmp_path / "journal").environment.device

    return run


def test_a_script_of_the_cpu_leaves_the_gpu_alone(device_named: Callable) -> None:
    in_use_at_its_end: list[bool] = []
    assert device_named(in_use_at_its_end.extend) != "the GPU"
    assert not in_use_at_its_end


def test_a_gpu_that_the_script_puts_in_use_is_named(device_named: Callable) -> None:
    assert device_named(lambda in_use: in_use.append(True)) == "the GPU"
