"""Launches on plain torch: what a call means does not depend on what runs it."""

import pytest

from gradwright.kernels.autograd import fusion
from gradwright.kernels.launch.plain import PlainLaunch


@pytest.fixture
def plain_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    """No kernel is compiled."""

    def launch_of(program, operands, results, precision):
        return PlainLaunch(program, precision, "a test asks for plain torch")

    monkeypatch.setattr(fusion, "launch_of", launch_of)
