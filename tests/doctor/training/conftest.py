"""Scripts of these tests run in forks of the zygote: what an earlier test compiled, or left behind, is not there."""

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))  # the fixture is a plain module beside the tests
import watched_here


@pytest.fixture(autouse=True)
def in_a_fork(run: Callable, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watched_here, "run", run, raising=False)
