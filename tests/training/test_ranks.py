"""How long one rank waits for the others, without any: what it waits for is made up."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from gradwright.training.ranks import Ranks


class Work:
    """Waited for, it raises or returns what comes next; completed as soon as a wait has raised."""

    def __init__(self, *ends: Exception | None) -> None:
        self._ends: Iterator[Exception | None] = iter(ends)
        self._completed = False

    def wait(self, timeout: object = None) -> None:
        if (end := next(self._ends)) is not None:
            self._completed = True
            raise end

    def is_completed(self) -> bool:
        return self._completed


@pytest.fixture
def ranks(monkeypatch: pytest.MonkeyPatch) -> Ranks:
    monkeypatch.setattr(Ranks, "_device", lambda self: torch.device("cpu"))
    monkeypatch.setattr(Ranks, "_is_called", lambda self: False)
    return Ranks(alone=True, seconds=60.0)


def test_what_is_done_just_after_a_wait_was_over_is_no_loss(ranks: Ranks) -> None:
    ranks._wait(Work(RuntimeError("Operation timed out!"), None))


def test_what_failed_says_why(ranks: Ranks) -> None:
    error = RuntimeError("Connection closed by peer")
    with pytest.raises(RuntimeError, match="Connection closed"):
        ranks._wait(Work(error, error))
