"""Scripts of these tests run in forks of the zygote: what an earlier test compiled, or left behind, is not there."""

from collections.abc import Callable

import pytest
from tests.doctor.training import watched_here


@pytest.fixture(autouse=True)
def in_a_fork(run: Callable, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watched_here, "run", run, raising=False)
