"""A bar on stderr, where somebody looks on."""

import io
from typing import Any

import pytest
import torch
from torch import nn

from gradwright.training import GradientAccumulator, Update
from gradwright.training.progress import Progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def shown(monkeypatch: pytest.MonkeyPatch, stderr: io.StringIO, batches: Any, **options: Any) -> str:
    monkeypatch.setattr("sys.stderr", stderr)
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", "100")
    model = nn.Linear(1, 1, bias=False)
    nn.init.ones_(model.weight)
    acc = GradientAccumulator(
        model, torch.optim.SGD(model.parameters(), 0.0), accumulation_steps=2, normalize="samples", **options
    )
    for window in acc.windows(batches):
        acc.update(window, lambda x: model(x).sum(), reduction="sum")
    return stderr.getvalue()


def test_updates_and_the_loss_are_shown_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    text = shown(monkeypatch, Terminal(), [torch.full((1, 1), 4.0)] * 5)
    assert "3/3" in text and "loss 4" in text


def test_a_file_gets_nothing_unless_it_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    assert shown(monkeypatch, io.StringIO(), [torch.ones(1, 1)] * 4) == ""
    assert shown(monkeypatch, Terminal(), [torch.ones(1, 1)] * 4, progress=False) == ""


def test_a_loader_without_a_length_has_no_end_to_show(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "2/?" in shown(monkeypatch, Terminal(), iter([torch.ones(1, 1)] * 4))


def test_a_loop_that_is_left_takes_the_bar_away(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stderr", Terminal())
    bar = Progress(None, 0)
    with pytest.raises(ZeroDivisionError), bar.over([1, 2], 1):
        assert bar._bar is not None
        raise ZeroDivisionError
    assert bar._bar is None
    bar.update(Update(0, {}, {}))


def test_windows_within_windows_have_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stderr", Terminal())
    outer, inner = Progress(None, 0), Progress(None, 0)
    with outer.over([1], 1):
        with inner.over([1], 1):
            assert outer._bar is not None and inner._bar is None
        assert outer._bar is not None
    with inner.over([1], 1):
        assert inner._bar is not None


def test_only_the_first_rank_has_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stderr", Terminal())
    bar = Progress(True, 1)
    with bar.over([1], 1):
        assert bar._bar is None


def test_the_loss_is_read_a_few_times_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    class Watched(Update):
        read = 0

        @property
        def loss(self) -> float:
            Watched.read += 1
            return 1.0

    monkeypatch.setattr("sys.stderr", Terminal())
    bar, now = Progress(True, 0), [100.0]
    monkeypatch.setattr("gradwright.training.progress.time.monotonic", lambda: now[0])
    with bar.over([1] * 50, 1):
        for _ in range(50):
            now[0] += 0.01
            bar.update(Watched(0, {}, {}))
    assert Watched.read == 3
