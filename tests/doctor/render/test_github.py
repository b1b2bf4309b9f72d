"""Annotations: one line each, read back as GitHub's runner reads them."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gradwright.doctor.render.github import command, render
from gradwright.doctor.session.model import Environment, Finding, Fix, NotExamined, Proof, Report, Script, Source
from gradwright.doctor.session.place import Location

HERE = Environment(cwd="/home/runner/work/repo/repo")


@dataclass(frozen=True)
class Command:
    name: str
    properties: dict[str, str]
    message: str


def read(text: str) -> list[Command]:
    """The commands in a step's output. A line is what ends in ``\\n``, ``\\r`` or both, for the runner reads it so."""
    found = []
    for line in re.split(r"\r\n|\r|\n", text):
        if not line.lstrip().startswith("::"):
            continue
        head, _, message = line.lstrip()[2:].partition("::")
        name, _, properties = head.partition(" ")
        pairs = [pair.partition("=") for pair in properties.split(",") if pair]
        told = {key: _plain(value, {"%3A": ":", "%2C": ","}) for key, _, value in pairs}
        found.append(Command(name, told, _plain(message, {})))
    return found


def _plain(text: str, more: dict[str, str]) -> str:
    for escaped, character in {"%0D": "\r", "%0A": "\n", **more, "%25": "%"}.items():
        text = text.replace(escaped, character)
    return text


def test_errors_come_first_then_warnings_the_summary_and_what_only_informs(make):
    report = replace(make.first_sight(), environment=HERE)
    note = make.finding(severity="info", message="by the way", location=Location("lib.py", 3))
    commands = read(render(replace(report, findings=(note, *report.findings))))
    assert [command.name for command in commands] == ["error", "warning", "notice", "notice"]
    error, warning, summary, information = commands
    assert error.properties == {
        "file": "/home/runner/work/repo/repo/train.py",
        "line": "42", "endLine": "42", "col": "27", "endColumn": "42",
        "title": "GW101 python-loop-over-elements",
    }  # fmt: skip
    assert error.message.split("\n") == [
        "Scale.backward returns half the gradient of w",
        "why: autograd of the forward and finite differences agree with each other, and not with it",
        "do: return x.t() @ g",
        "- return g @ w.t(), 0.5 * x.t() @ g",
        "+ return g @ w.t(), x.t() @ g",
        "verified on 4 inputs, worst difference 0",
        "more: gradwright explain GW101",
    ]
    assert warning.properties["line"] == "18"
    assert summary.properties == {"title": "Gradwright"}
    assert "3 findings (1 error, 1 warning, 1 info), 2 verified fixes" in summary.message
    assert "not examined: second order of Scale" in summary.message
    assert information.message.startswith("by the way\n")


def test_a_clean_run_is_one_notice(make):
    (only,) = read(render(Report(script=make.script)))
    assert only.name == "notice" and only.message.endswith("nothing wrong was found")


@pytest.mark.parametrize("count", [10, 11])
def test_what_github_will_not_show_is_counted_on(make, count: int):
    findings = tuple(make.finding(location=Location("train.py", line)) for line in range(1, count + 1))
    commands = read(render(Report(findings=findings)))
    assert len(commands) == count + 1
    assert ("GitHub shows 10 annotations of a kind" in commands[-1].message) is (count > 10)


@pytest.mark.parametrize(
    ("at", "properties"),
    [
        (Location("a.py", 7), {"line": "7"}),
        (Location("a.py", 7, 3, 7, 9), {"line": "7", "endLine": "7", "col": "3", "endColumn": "9"}),
        (Location("a.py", 7, 3, 9, 2), {"line": "7", "endLine": "9"}),  # columns on one line only
        (Location("a.py", 7, 3, 7, 3), {"line": "7"}),
        (Location("a.py", 7, 0, 7, 3), {"line": "7"}),
        (Location("a.py", 7, 3, 5, 9), {"line": "7"}),
        (Location("a.py", 0), {}),
        (Location("a.py", -1, 2, -1, 4), {}),
    ],
)
def test_a_place_is_told_as_far_as_it_is_known(make, at: Location, properties: dict[str, str]):
    found, _ = read(render(Report(environment=HERE, findings=(make.finding(location=at),))))
    assert found.properties.pop("title") == "GW301 python-loop-over-elements"
    assert found.properties.pop("file") == "/home/runner/work/repo/repo/a.py"
    assert found.properties == properties


@pytest.mark.parametrize(
    ("path", "cwd", "file"),
    [
        ("deep/a.py", "/work/", "/work/deep/a.py"),
        ("/lib/a.py", "/work/", "/lib/a.py"),
        ("a.py", "", "a.py"),
        ("my  a,b:c%.py", "/w", "/w/my  a,b:c%.py"),
        ("deep\\a.py", "D:\\work", "D:\\work\\deep\\a.py"),
        ("<string>", "/work", None),
        ("", "/work", None),
    ],
)
def test_a_file_is_named_by_its_whole_path(make, path: str, cwd: str, file: str | None):
    report = Report(environment=Environment(cwd=cwd), findings=(make.finding(location=Location(path, 2)),))
    found, _ = read(render(report))
    assert found.properties.get("file") == file
    assert ("line" in found.properties) is (file is not None)


@given(st.text(st.sampled_from("%0AD32C5\r\n:,=a \ud800\u2028é") | st.characters()), st.text(st.characters()))
def test_whatever_is_said_is_one_command_and_read_back_as_it_was(value: str, message: str):
    line = command("error", {"file": value, "title": "t"}, message)
    (found,) = read(line + "\n")
    known = [text.encode("utf-8", "replace").decode() for text in (value, message)]
    assert found == Command("error", {"file": known[0], "title": "t"}, known[1])


EVIL = "x\r\n::error file=/etc/passwd::owned\n##[error]owned\r::set-env name=A::b%0A::warning::c\x1b[2J\u202e\ud800"


def test_what_the_user_wrote_starts_no_command(make):
    diff = f"--- a\n+++ a\n@@ -1 +1 @@\n-{EVIL!r}\n+::error::owned\n"
    finding = make.finding(
        message=EVIL, why=EVIL, hints=(EVIL,), name=EVIL, code=EVIL, subject=EVIL, location=Location(EVIL, 1),
        fix=Fix(diff, Proof("proved", (EVIL,), 0.0, 0.0, 0, certificate=EVIL, run=EVIL), EVIL),
    )  # fmt: skip
    text = render(
        Report(
            environment=Environment(cwd=EVIL),
            script=Script(argv=(EVIL, EVIL), exit_code=0, stopped_early=EVIL),
            sources=(Source(EVIL, "", EVIL),),
            findings=(finding,),
            not_examined=(NotExamined(EVIL, EVIL),),
        )
    )
    assert text.count("\n") == 2 and not re.search("[\x00-\x09\x0b-\x1f\u202e]", text)
    assert [(one.name, set(one.properties)) for one in read(text)] == [
        ("warning", {"file", "line", "title"}),
        ("notice", {"title"}),
    ]
    assert "%250A::warning" in text  # what the user typed as %0A stays that
    text.encode("utf-8")


def test_the_reader_of_these_tests_sees_a_command_that_was_let_through():
    finding = Finding("GW301", "n", "speed", "warning", "f", Location("a.py", 1), "m", "w")
    careless = f"::warning file={finding.location.path}::{EVIL}\n"
    assert [one.name for one in read(careless)] == ["warning", "error", "set-env"]
