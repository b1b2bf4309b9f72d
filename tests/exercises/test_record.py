"""What is remembered of a folder: nothing hangs on it."""

from __future__ import annotations

from pathlib import Path

import pytest

from gradwright.errors import GradwrightError
from gradwright.exercises.catalog import exercise_of
from gradwright.exercises.files import begin
from gradwright.exercises.record import KEPT, Record, digest

HUBER = exercise_of(5)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_state_follows_the_file() -> None:
    assert Record.read().state(HUBER) == "not begun"
    file = Path(HUBER.file)
    file.write_text("x = 1\n")
    assert Record.read().state(HUBER) == "begun"
    Record.read().note(HUBER, passed=digest(file.read_bytes()))
    assert Record.read().state(HUBER) == "passed"
    file.write_text("x = 2\n")
    assert Record.read().state(HUBER) == "changed"
    file.unlink()
    assert Record.read().state(HUBER) == "not begun"


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"exercises": 3}', '{"exercises": {"5": 3}}', '{"exercises": {"x": {}}}', "[" * 100_000]
)
def test_a_record_that_is_none_counts_as_empty(text: str) -> None:
    KEPT.parent.mkdir()
    KEPT.write_text(text)
    assert Record.read().known == {}
    Record.read().note(HUBER, hints=2)
    assert Record.read().of(HUBER).hints == 2


def test_a_folder_that_takes_no_record_is_no_fault(folder: Path) -> None:
    KEPT.parent.write_text("a file, where the folder would be")
    Record.read().note(HUBER, hints=1)
    assert Record.read().of(HUBER).hints == 0
    assert [path.name for path in folder.iterdir()] == [".gradwright"]


def test_a_file_is_begun_whole_and_never_written_over(folder: Path) -> None:
    file = folder / "answer.py"
    begin(file, "a\n")
    with pytest.raises(FileExistsError):
        begin(file, "b\n")
    assert file.read_text() == "a\n" and list(folder.iterdir()) == [file]


def test_a_dangling_link_is_not_followed(folder: Path) -> None:
    (folder / "answer.py").symlink_to(folder / "elsewhere.py")
    with pytest.raises(FileExistsError):
        begin(folder / "answer.py", "a\n")
    assert not (folder / "elsewhere.py").exists()


def test_without_links_it_is_begun_all_the_same(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object) -> None:
        raise PermissionError("no links on this file system")

    monkeypatch.setattr("os.link", refused)
    begin(folder / "answer.py", "a\n")
    with pytest.raises(FileExistsError):
        begin(folder / "answer.py", "b\n")
    assert (folder / "answer.py").read_text() == "a\n"


def test_a_file_that_cannot_be_begun_is_told(folder: Path) -> None:
    with pytest.raises(GradwrightError, match="can't be written: No such file or directory"):
        begin(folder / "nowhere" / "answer.py", "a\n")
