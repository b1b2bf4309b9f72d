"""What a command writes is never what it reads, nor a file that somebody else made; whereto ``--output`` may go."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from gradwright.doctor.commands.diagnose import further
from gradwright.doctor.session.codec import to_json
from gradwright.doctor.session.model import Report

SCRIPT = "print('it ran', file=open('ran.txt', 'w'))\n"


@pytest.fixture
def script(folder: Path) -> Path:
    path = folder / "train.py"
    path.write_text(SCRIPT)
    (folder / "link.py").symlink_to(path)
    os.link(path, folder / "hard.py")
    return path


@pytest.mark.parametrize(
    ("words", "word"),
    [
        (["--output", "train.py"], "the report would overwrite the script: both are train.py"),
        (["--output", "./here/../link.py"], "the report would overwrite the script"),
        (["--output", "hard.py"], "the report would overwrite the script"),
        (["--session", "link.py"], "the session would overwrite the script"),
        (["--session", "new.json", "--output", "./new.json"], "the report would overwrite the session"),
    ],
)
def test_diagnose_overwrites_neither_the_script_nor_its_own_session(words, word, script: Path, folder: Path, call):
    (folder / "here").mkdir()
    called = call("diagnose", *words, "train.py")
    assert called.exit_code == 2 and word in called.stderr
    assert script.read_text() == SCRIPT
    assert sorted(path.name for path in folder.iterdir()) == ["hard.py", "here", "link.py", "train.py"]  # nothing ran


@pytest.mark.parametrize("command", ["diagnose", "fix"])
def test_the_session_of_the_settings_is_compared_too(command: str, script: Path, folder: Path, call):
    (folder / "pyproject.toml").write_text('[tool.gradwright]\nsession = "train.py"\n')
    called = call(command, "train.py")
    assert called.exit_code == 2 and "the session would overwrite the script" in called.stderr
    assert script.read_text() == SCRIPT and not (folder / "ran.txt").exists()


def test_report_does_not_overwrite_the_session_that_it_shows(make, keep, folder: Path, call):
    path = keep(make.first_sight())
    before = path.read_bytes()
    for words in (["report", str(path)], ["report"]):
        called = call(*words, "--format", "html", "--output", ".gradwright/../.gradwright/last.json")
        assert called.exit_code == 2 and "--output would overwrite the session that is shown" in called.stderr
    assert path.read_bytes() == before


def test_devices_may_be_named_for_both(script: Path, call):
    called = call("diagnose", "--session", "/dev/null", "--output", "/dev/null", "train.py")
    assert called.exit_code == 0, called.output


@pytest.mark.parametrize("text", ["hello", "{}", '{"a": 1}', '{"environment": {"a": 1}}', "[1]", SCRIPT])
def test_a_file_that_is_no_session_is_not_replaced_by_one(text: str, script: Path, folder: Path, call):
    (folder / "mine").write_text(text)
    called = call("diagnose", "--session", "mine", "train.py")
    assert called.exit_code == 2 and "can't be kept in mine: that file is there, and is no session" in called.stderr
    assert (folder / "mine").read_text() == text and not (folder / "ran.txt").exists()


@pytest.mark.parametrize("text", ["", "{", to_json(Report())[:20], to_json(Report())[:100], to_json(Report())])
def test_an_empty_file_and_a_session_even_cut_off_are_replaced(text: str, script: Path, folder: Path, gradwright):
    (folder / "mine").write_text(text)
    called = gradwright("diagnose", "--session", "mine", "train.py", cwd=folder)
    assert called.code == 0
    told = "gradwright: the session is in mine: gradwright report mine --format html makes a page of it\n"
    assert called.stderr.endswith(told)
    assert gradwright("report", "mine", cwd=folder).code == 0


def test_whatever_lies_in_our_own_place_is_replaced(script: Path, folder: Path, gradwright):
    (folder / ".gradwright").mkdir()
    (folder / ".gradwright" / "last.json").write_text("hello")
    called = gradwright("diagnose", "--format", "json", "train.py", cwd=folder)
    assert called.code == 0
    assert "the session is in .gradwright/last.json: gradwright report --format html makes" in called.stderr


def test_no_folder_is_made_for_a_report(make, keep, folder: Path, call):
    keep(make.first_sight())
    called = call("report", "--output", "nowhere/x.html")
    assert called.exit_code == 2 and "nowhere/x.html: there is no folder nowhere" in called.stderr
    assert not (folder / "nowhere").exists()


def test_a_dash_is_standard_output_and_nothing_is_no_file(make, keep, folder: Path, call):
    keep(make.first_sight())
    assert call("report", "--format", "html", "--output", "-").stdout == call("report", "--format", "html").stdout
    assert not (folder / "-").exists()
    for command in (["report", "--output", ""], ["diagnose", "--session", "", "train.py"]):
        called = call(*command)
        assert called.exit_code == 2 and "no file is named" in called.stderr


def test_a_session_elsewhere_is_named_in_every_command_that_needs_it(make, folder: Path):
    kept = "gradwright report 'my s.json' --format html makes a page of it"
    fixes = "gradwright fix --session 'my s.json' train.py shows the fixes"
    assert further(make.first_sight(), Path("my s.json")) == f"the session is in 'my s.json': {kept}, {fixes}"
    assert "gradwright fix" not in further(Report(), Path("my s.json"))
    usual = further(make.first_sight(), Path(".gradwright/last.json"))
    assert usual.endswith("last.json: gradwright report --format html makes a page of it")
