"""Files are written whole or not at all, whatever happens on the way; the old text stays beside them."""

from __future__ import annotations

import errno
import os
import signal
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest import mock

import pytest

from gradwright.doctor.mending import writing
from gradwright.doctor.mending.combining import MendedFile
from gradwright.doctor.mending.files import NotWritable
from gradwright.doctor.mending.writing import write

OLD, NEW = b"x = 1\n" * 50, b"x = 2\n" * 60
# What writing asks of the system; Path's methods end there too.
CALLS = ("open", "fstat", "fchmod", "fsync", "link", "replace", "unlink", "stat")


@pytest.fixture
def made(tmp_path: Path) -> Callable[..., MendedFile]:
    def make(name: str = "train.py", old: bytes = OLD, new: bytes = NEW) -> MendedFile:
        path = tmp_path / name
        path.write_bytes(old)
        return MendedFile(name, path, old, new, ())

    return make


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_the_new_text_is_written_and_the_old_one_kept_with_its_mode(made: Callable, tmp_path: Path):
    file = made()
    file.real.chmod(0o751)
    written, refused = write([file])
    assert refused == {}
    assert file.real.read_bytes() == NEW
    assert [done.kept for done in written] == [tmp_path / "train.py.orig"]
    assert written[0].kept.read_bytes() == OLD
    assert {stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()} == {0o751}
    assert names(tmp_path) == ["train.py", "train.py.orig"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_the_owner_stays_the_owner(made: Callable):
    file = made()
    os.chown(file.real, 12345, 54321)
    write([file])
    assert (file.real.stat().st_uid, file.real.stat().st_gid) == (12345, 54321)


def test_a_file_that_would_change_its_owner_stays(made: Callable, monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    file = made()
    monkeypatch.setattr(os, "fchown", mock.Mock(side_effect=PermissionError(errno.EPERM, "no")))
    os.chown(file.real, 12345, -1)
    with pytest.raises(NotWritable, match=r"belongs to somebody else.*every file is as it was"):
        write([file])
    assert names(tmp_path) == ["train.py"] and file.real.read_bytes() == OLD


def test_what_was_kept_before_is_never_overwritten(made: Callable, tmp_path: Path):
    file = made()
    (tmp_path / "train.py.orig").write_text("mine")
    (tmp_path / "train.py.orig.1").symlink_to("nowhere")
    (written,), _ = write([file])
    assert written.kept.name == "train.py.orig.2"
    assert (tmp_path / "train.py.orig").read_text() == "mine"


@pytest.mark.parametrize("where", ["file", "folder"])
def test_what_is_read_only_is_left_as_it_is_and_the_others_go_on(made: Callable, where: str, tmp_path: Path):
    (tmp_path / "locked").mkdir()
    file, other = made("locked/train.py"), made("model.py")
    (file.real if where == "file" else file.real.parent).chmod(0o555)
    written, refused = write([file, other])
    file.real.parent.chmod(0o755)
    assert list(refused) == ["locked/train.py"] and "read-only" in refused["locked/train.py"]
    assert file.real.read_bytes() == OLD and names(file.real.parent) == ["train.py"]
    assert [done.file.path for done in written] == ["model.py"] and other.real.read_bytes() == NEW


def test_a_file_that_changed_meanwhile_is_left_as_it_is(made: Callable, tmp_path: Path):
    file = made()
    file.real.write_bytes(b"mine\n")
    written, refused = write([file])
    assert written == [] and "changed meanwhile" in refused["train.py"]
    assert file.real.read_bytes() == b"mine\n" and names(tmp_path) == ["train.py"]


def test_a_change_between_the_writing_and_the_move_stops_all_of_it(made: Callable, monkeypatch, tmp_path: Path):
    files = [made("a.py"), made("b.py")]
    move_all = writing._move_all

    def edited(ready) -> None:
        files[1].real.write_bytes(b"mine\n")
        move_all(ready)

    monkeypatch.setattr(writing, "_move_all", edited)
    with pytest.raises(NotWritable, match=r"changed meanwhile.*every file is as it was"):
        write(files)
    assert files[0].real.read_bytes() == OLD and files[1].real.read_bytes() == b"mine\n"
    assert names(tmp_path) == ["a.py", "b.py"]


def test_a_link_stays_a_link_and_its_target_is_changed(made: Callable, tmp_path: Path):
    file = made("real.py")
    (tmp_path / "train.py").symlink_to("real.py")
    write([file])
    assert (tmp_path / "train.py").is_symlink() and (tmp_path / "train.py").read_bytes() == NEW


def test_other_names_of_the_file_keep_the_old_text_and_that_is_told(made: Callable, tmp_path: Path):
    file = made()
    os.link(file.real, tmp_path / "twin.py")
    (written,), _ = write([file])
    assert written.other_names == 1
    assert (tmp_path / "twin.py").read_bytes() == OLD and file.real.read_bytes() == NEW
    # The kept text has a file of its own: who edits the twin in place does not change it.
    (tmp_path / "twin.py").write_bytes(b"edited")
    assert written.kept.read_bytes() == OLD


def test_without_hard_links_a_copy_is_kept(made: Callable, monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setattr(os, "link", mock.Mock(side_effect=OSError(errno.EPERM, "no hard links here")))
    (written,), _ = write([made()])
    assert written.kept.read_bytes() == OLD
    assert names(tmp_path) == ["train.py", "train.py.orig"]


# --- whatever happens on the way -------------------------------------------------------------------------------------


@contextmanager
def struck(at: int, what: Callable[[], None]) -> Iterator[list[str]]:
    """``what`` happens right before the call number ``at`` of the system; gives the calls that were made."""
    made: list[str] = []

    def watched(name: str) -> Callable:
        real = getattr(os, name)

        def call(*args, **kwargs):
            made.append(name)
            if len(made) == at:
                what()
            return real(*args, **kwargs)

        return call

    with contextmanager(_patched)({name: watched(name) for name in CALLS}):
        yield made


def _patched(calls: dict[str, Callable]) -> Iterator[None]:
    before = {name: getattr(os, name) for name in calls}
    vars(os).update(calls)
    try:
        yield
    finally:
        vars(os).update(before)


def fresh(files: list[MendedFile], folder: Path) -> None:
    for path in folder.iterdir():
        path.unlink()
    for file in files:
        file.real.write_bytes(OLD)


def texts(files: list[MendedFile]) -> set[bytes]:
    return {file.real.read_bytes() for file in files}


def number_of_calls(files: list[MendedFile]) -> int:
    with struck(0, lambda: None) as calls:
        write(files)
    return len(calls)


def test_a_disk_that_is_full_at_any_moment_leaves_all_files_old_or_all_new(made: Callable, tmp_path: Path):
    files = [made("a.py"), made("b.py")]

    def full() -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    failed = 0
    total = number_of_calls(files)
    for at in range(1, total + 1):
        fresh(files, tmp_path)
        refused: dict[str, str] = {}
        try:
            with struck(at, full):
                refused = write(files)[1]
        except NotWritable as error:
            failed += 1
            assert "No space left on device" in str(error) and "every file is as it was" in str(error)
            assert texts(files) == {OLD}
            assert names(tmp_path) == ["a.py", "b.py"]
        else:
            assert texts([file for file in files if file.path not in refused]) <= {NEW}
            assert texts([file for file in files if file.path in refused]) <= {OLD}
        assert not any(name.startswith(".") for name in names(tmp_path))
    assert failed > 5


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interruption_at_any_moment_leaves_all_files_old_or_all_new(
    made: Callable, tmp_path: Path, number: signal.Signals
):
    files = [made("a.py"), made("b.py")]
    interrupted = finished = 0
    for at in range(1, number_of_calls(files) + 1):
        fresh(files, tmp_path)
        try:
            with struck(at, lambda: os.kill(os.getpid(), number)):
                write(files)
        except KeyboardInterrupt:
            interrupted += 1
            assert texts(files) == {OLD}, at
            assert names(tmp_path) == ["a.py", "b.py"]
        else:
            finished += 1
            assert texts(files) == {NEW}, at
            assert names(tmp_path) == ["a.py", "a.py.orig", "b.py", "b.py.orig"]
    assert interrupted > 3 and finished > 3


def test_kill_at_any_moment_leaves_each_file_old_or_new_and_the_old_text_somewhere(made: Callable, tmp_path: Path):
    files = [made("a.py"), made("b.py")]
    seen = set()
    for at in range(1, number_of_calls(files) + 1):
        fresh(files, tmp_path)
        child = os.fork()
        if child == 0:
            with struck(at, lambda: os.kill(os.getpid(), signal.SIGKILL)):
                write(files)
            os._exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
        for file in files:
            text, kept = file.real.read_bytes(), tmp_path / f"{file.path}.orig"
            assert text in (OLD, NEW)
            assert text == OLD or kept.read_bytes() == OLD
            assert not kept.exists() or kept.read_bytes() == OLD
            seen.add(text)
    assert seen == {OLD, NEW}


def test_of_two_at_once_one_writes_and_the_other_is_told(made: Callable, tmp_path: Path):
    file = made()
    with writing._locked(file):
        written, refused = write([file])
    assert written == [] and "another gradwright fix" in refused["train.py"]
    assert file.real.read_bytes() == OLD
    write([file])
    written, refused = write([file])
    assert written == [] and "changed meanwhile" in refused["train.py"]
    assert names(tmp_path) == ["train.py", "train.py.orig"]


def test_many_at_once_make_the_change_exactly_once(made: Callable, tmp_path: Path):
    file = made()
    children = []
    for _ in range(12):
        child = os.fork()
        if child == 0:
            os._exit(len(write([file])[0]))
        children.append(child)
    assert sum(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children) == 1
    assert file.real.read_bytes() == NEW
    assert names(tmp_path) == ["train.py", "train.py.orig"]


def test_a_file_that_cannot_even_be_moved_back_is_told_with_its_old_text(made: Callable, monkeypatch, tmp_path: Path):
    files = [made("a.py"), made("b.py")]
    real, moves = os.replace, []

    def broken(*names) -> None:
        moves.append(names)
        if len(moves) > 1:
            raise OSError(errno.EIO, "Input/output error")
        real(*names)

    monkeypatch.setattr(os, "replace", broken)
    with pytest.raises(NotWritable, match=r"Input/output error.*a\.py\.orig"):
        write(files)
    assert (tmp_path / "a.py.orig").read_bytes() == OLD == (tmp_path / "b.py").read_bytes()
