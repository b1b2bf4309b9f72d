"""``gradwright report``: a session again, in any form, and its exit code."""

from __future__ import annotations

import dataclasses
import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from gradwright.doctor.render import FORMATS, render
from gradwright.doctor.session.codec import from_json, to_json
from gradwright.doctor.session.model import Report


def test_the_last_session_is_shown_where_none_is_named(make, keep, call):
    report = make.first_sight()
    keep(report)
    called = call("report")
    assert called.exit_code == 1
    assert called.stdout == render(report, "terminal", width=100)
    assert called.stderr == ""


@pytest.mark.parametrize("form", FORMATS)
def test_every_form_is_that_of_the_renderer(form: str, make, keep, call, folder: Path):
    path = keep(make.first_sight(), "old.json")
    called = call("report", str(path), "--format", form)
    assert called.exit_code == 1
    (folder / "out").mkdir()
    written = call("report", str(path), "--format", form, "--output", "out/report.txt")
    assert (written.exit_code, written.output) == (1, "")
    assert (folder / "out" / "report.txt").read_text() == called.stdout


def test_json_is_the_session_itself(make, keep, call):
    path = keep(make.first_sight())
    assert call("report", "--format", "json").stdout == path.read_text()


def test_information_alone_is_clean_and_findings_need_not_be(make, keep, call):
    report = make.first_sight()
    keep(dataclasses.replace(report, findings=tuple(dataclasses.replace(f, severity="info") for f in report.findings)))
    assert call("report").exit_code == 0
    keep(report)
    assert call("report", "--exit-zero").exit_code == 0


def test_codes_are_selected_and_ignored(make, keep, call):
    keep(make.first_sight())

    def codes(*words: str) -> tuple[list[str], int]:
        called = call("report", "--format", "json", *words)
        return [finding.code for finding in from_json(called.stdout).findings], called.exit_code

    assert codes("--select", "gw3") == (["GW301"], 1)
    assert codes("--select", "GW1,GW3", "--ignore", "GW301") == (["GW101"], 1)
    assert codes("--ignore", "GW1,GW3") == ([], 0)
    assert codes("--select", "GW6") == ([], 0)


def test_what_was_not_selected_is_no_clean_bill(make, keep, call):
    keep(make.first_sight())
    text = call("report", "--select", "GW6").stdout
    assert "nothing wrong was found among the codes that were selected · 2 not selected" in text
    assert "nothing else was found" not in text
    assert "1 finding, 1 verified fix · 1 not selected" in call("report", "--select", "GW1").stdout


def test_a_code_that_is_none_is_wrong_usage(make, keep, call):
    """A gate that waits for GW130 where GW103 was meant never closes."""
    keep(make.first_sight())
    for option in ("--select", "--ignore"):
        called = call("report", option, "GW1,GW777")
        assert called.exit_code == 2
        assert "no code begins with GW777: gradwright rules lists them" in called.stderr


@pytest.mark.parametrize(
    ("words", "word"),
    [
        (["nowhere.json"], "the session nowhere.json can't be read: there is no such file; gradwright diagnose writes"),
        (["cut.json"], "the session cut.json can't be read: it was cut off"),
        (["."], "it is no plain file but a directory"),
        ([], "the session .gradwright/last.json can't be read: there is no such file"),
        (["cut.json", "more.json"], "unexpected extra argument"),
        (["cut.json", "--format", "pdf"], "'pdf' is not one of 'terminal', "),
    ],
)
def test_what_cannot_be_read_exits_2_with_a_word(words: list[str], word: str, make, call, folder: Path):
    (folder / "cut.json").write_text(to_json(make.first_sight())[:3000])
    called = call("report", *words)
    assert called.exit_code == 2
    assert word in called.stderr and called.stdout == ""


def test_the_session_that_pyproject_names_is_the_last_one(make, keep, call, folder: Path):
    keep(make.first_sight(), "kept/there.json")
    (folder / "pyproject.toml").write_text('[tool.gradwright]\nsession = "kept/there.json"\n')
    assert "MySquare" in call("report").stdout


def test_a_report_that_cannot_be_written_leaves_the_old_one(make, keep, call, folder: Path, monkeypatch):
    keep(make.first_sight())
    (folder / "report.txt").write_text("old")

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    called = call("report", "--output", "report.txt")
    assert called.exit_code == 3
    assert "the report can't be written to report.txt: No space left on device" in called.stderr
    assert (folder / "report.txt").read_text() == "old"
    assert sorted(item.name for item in folder.iterdir()) == [".gradwright", "report.txt"]


def test_text_that_is_no_utf8_reaches_a_file(make, keep, call, folder: Path):
    report = make.first_sight()
    keep(dataclasses.replace(report, script=dataclasses.replace(report.script, argv=("caf\udce9.py",))))
    for form in FORMATS:
        assert call("report", "--format", form, "--output", form).exit_code == 1
        assert (folder / form).read_bytes().decode("utf-8")


def on_a_terminal(*words: str, cwd: Path) -> str:
    """What a person sees whose terminal this is."""
    ours, theirs = pty.openpty()
    environment = {**os.environ, "TERM": "dumb", "NO_COLOR": "1"}
    command = [sys.executable, "-m", "gradwright", *words]
    with subprocess.Popen(command, cwd=cwd, stdout=theirs, stderr=theirs, stdin=theirs, env=environment) as process:
        os.close(theirs)
        seen = b""
        while True:
            try:
                part = os.read(ours, 65536)
            except OSError:  # the other end is closed
                break
            if not part:
                break
            seen += part
        process.wait(30)
    os.close(ours)
    return seen.decode()


@pytest.mark.skipif("html" not in FORMATS, reason="there is no page yet")
def test_a_page_is_no_text_for_a_terminal(make, keep, folder: Path):
    keep(make.first_sight())
    assert "the page is in .gradwright/report.html" in on_a_terminal("report", "--format", "html", cwd=folder)
    assert (folder / ".gradwright" / "report.html").read_text().startswith("<!")
    (folder / ".gradwright" / "report.html").unlink()
    on_a_terminal("report", "--format", "html", "--output", "mine.html", cwd=folder)
    assert (folder / "mine.html").is_file() and not (folder / ".gradwright" / "report.html").exists()


def test_what_is_text_is_shown_on_a_terminal(make, keep, folder: Path):
    keep(make.first_sight())
    assert "Scale.backward returns half the gradient of w" in on_a_terminal("report", cwd=folder)
    assert json.loads(on_a_terminal("report", "--format", "json", cwd=folder))["schema_version"] == 1


def test_diagnose_offers_the_same_forms(call):
    for command in ("diagnose", "report"):
        assert f"[{'|'.join(FORMATS)}]" in "".join(call(command, "--help").stdout.split())


def test_a_report_with_nothing_in_it_is_clean(keep, call):
    keep(Report())
    assert call("report").exit_code == 0
