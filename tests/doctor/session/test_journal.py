"""The journal folds into the report, however far it got."""

import os
from pathlib import Path

import pytest

from gradwright.doctor.session.facts import LoopRun
from gradwright.doctor.session.journal import Journal, fold, read_lines
from gradwright.doctor.session.model import Finding, NotExamined, Specimen, Subject
from gradwright.doctor.session.place import Location

AT = Location("train.py", 3)


def loop_run(entries: int) -> LoopRun:
    return LoopRun(id="loop", subject="s", entries=entries, seconds=0.5, share_of_step=0.1)


def test_a_later_fact_replaces_the_one_with_its_id(tmp_path: Path) -> None:
    with Journal(tmp_path / "journal") as journal:
        journal.add(loop_run(1), Subject("s", "loop", "f", AT), loop_run(7))
        assert fold(journal.path).facts == (loop_run(7),)


def test_the_same_fact_is_written_once(tmp_path: Path) -> None:
    with Journal(tmp_path / "journal") as journal:
        for _ in range(5):
            journal.add(loop_run(1))
        assert len(read_lines(journal.path)[0]) == 1


def test_fields_of_the_script_add_up(tmp_path: Path) -> None:
    with Journal(tmp_path / "journal") as journal:
        journal.script(argv=("a",))
        journal.script(exit_code=3)
        script = fold(journal.path).script
        assert (script.argv, script.exit_code) == (("a",), 3)


def test_a_journal_cut_in_a_line_keeps_the_lines_before_and_after(tmp_path: Path) -> None:
    with Journal(tmp_path / "journal") as journal:
        journal.add(NotExamined("a", "1"), NotExamined("b", "2"), NotExamined("c", "3"))
        lines = journal.path.read_bytes().splitlines(keepends=True)
        journal.path.write_bytes(lines[0] + lines[1][:10] + b"\n" + lines[2] + lines[0][:8])
        assert [item.what for item in fold(journal.path).not_examined] == ["a", "c"]


def test_an_empty_journal_is_an_empty_report(tmp_path: Path) -> None:
    (tmp_path / "journal").touch()
    assert fold(tmp_path / "journal").findings == ()


def test_findings_are_told_errors_first_and_replaced_by_their_fixed_selves(tmp_path: Path) -> None:
    with Journal(tmp_path / "journal") as journal:
        info = Finding("GW303", "n", "speed", "info", "s", AT, "m", "w")
        error = Finding("GW101", "n", "gradient", "error", "s", AT, "m", "w")
        journal.add(info, error, error.with_fix((), None))
        assert [finding.code for finding in fold(journal.path).findings] == ["GW101", "GW303"]


def test_a_forked_child_writes_nothing(tmp_path: Path) -> None:
    with Journal(tmp_path / "journal") as journal:
        pid = os.fork()
        if pid == 0:
            journal.add(Specimen("p", "s", 1))
            os._exit(0)
        os.waitpid(pid, 0)
        assert journal.path.read_text() == ""


def test_a_full_disk_is_no_trouble_of_the_scripts_and_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(descriptor: int, data: bytes) -> int:
        raise OSError("no space left")

    with Journal(tmp_path / "journal") as journal:
        monkeypatch.setattr(os, "write", full)
        journal.add(loop_run(1))
        monkeypatch.undo()
        journal.add(NotExamined("a", "b"))
        assert fold(journal.path).facts == (loop_run(1),)
