"""A file gets its new content whole or not at all."""

from __future__ import annotations

import os
import stat
import threading
from pathlib import Path

import pytest

from gradwright.doctor.session.storing import store


def test_folders_are_made_and_old_content_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "er" / "report.html"
    store(b"one", path)
    store(b"two", path)
    assert path.read_bytes() == b"two"
    assert [item.name for item in path.parent.iterdir()] == ["report.html"]


def test_a_full_disk_leaves_the_old_file_and_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "report.html"
    path.write_bytes(b"old")

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        store(b"new", path)
    assert path.read_bytes() == b"old"
    assert [item.name for item in tmp_path.iterdir()] == ["report.html"]


def test_the_mode_of_the_old_file_stays_and_a_new_one_gets_the_usual(tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    mask = os.umask(0o027)
    try:
        store(b"one", path)
        assert stat.S_IMODE(path.stat().st_mode) == 0o640
        path.chmod(0o604)
        store(b"two", path)
    finally:
        os.umask(mask)
    assert stat.S_IMODE(path.stat().st_mode) == 0o604


def test_a_link_goes_on_leading_where_it_led(tmp_path: Path) -> None:
    (tmp_path / "kept").mkdir()
    link = tmp_path / "last.json"
    link.symlink_to("kept/today.json")
    store(b"one", link)
    assert link.is_symlink() and (tmp_path / "kept" / "today.json").read_bytes() == b"one"


def test_a_pipe_is_written_to_and_stays_one(tmp_path: Path) -> None:
    """``--output /dev/stdout``, or a shell's ``>(...)``."""
    pipe, got = tmp_path / "pipe", []
    os.mkfifo(pipe)
    reader = threading.Thread(target=lambda: got.append(pipe.read_bytes()))
    reader.start()
    store(b"through it", pipe)
    reader.join(10)
    assert got == [b"through it"]
    assert stat.S_ISFIFO(pipe.stat().st_mode)
