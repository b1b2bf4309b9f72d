"""Code that is run a second time changes no file, however it writes."""

import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from gradwright.ground.forked import in_child

WRITERS: dict[str, Callable[[Path], object]] = {
    "open": lambda path: path.open("a").write("more"),
    "truncate": lambda path: path.open("w"),
    "unlink": Path.unlink,
    "rename": lambda path: path.rename(path.with_suffix(".new")),
    "torch.save": lambda path: torch.save(torch.ones(3), path),
    "torch.save in the old format": lambda path: torch.save({}, path, _use_new_zipfile_serialization=False),
}


@pytest.mark.parametrize("way", WRITERS)
def test_a_file_stays_as_it_is(way: str, tmp_path: Path) -> None:
    path = tmp_path / "log.txt"
    path.write_text("before")
    outcome = in_child(lambda: WRITERS[way](path), seconds=10)
    assert outcome.how == "raised" and "PermissionError" in outcome.why
    assert path.read_text() == "before"
    assert [file.name for file in tmp_path.iterdir()] == ["log.txt"]


def test_a_file_that_is_open_already_takes_no_more(tmp_path: Path) -> None:
    with (tmp_path / "log.txt").open("w") as stream:
        outcome = in_child(lambda: stream.write("x" * 100_000) and stream.flush(), seconds=10)  # type: ignore[func-returns-value]
        assert outcome.how == "raised"
    assert (tmp_path / "log.txt").read_text() == ""


def test_reading_is_free(tmp_path: Path) -> None:
    path = tmp_path / "weights.pt"
    torch.save(torch.ones(3), path)
    assert in_child(lambda: torch.load(path).sum().item(), seconds=10).value == 3


def test_the_temporary_directory_is_known_though_nobody_asked_before(monkeypatch: pytest.MonkeyPatch) -> None:
    found = tempfile.gettempdir()
    monkeypatch.setattr(tempfile, "tempdir", None)
    assert in_child(tempfile.gettempdir, seconds=10).value == found
