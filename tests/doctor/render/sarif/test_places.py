"""Paths as URIs, places as regions."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from gradwright.doctor.render.sarif.places import Files, around, lines_of, marked, region
from gradwright.doctor.session.model import Environment, Report, Script
from gradwright.doctor.session.place import Location

CWD = "/home/ann/work"


@pytest.mark.parametrize(
    ("path", "uri"),
    [
        ("train.py", "train.py"),
        ("deep/er/train.py", "deep/er/train.py"),
        (f"{CWD}/train.py", "train.py"),
        ("deep/../train.py", "train.py"),
        ("my train#1?.py", "my%20train%231%3F.py"),
        ("50%.py", "50%25.py"),
        ("é.py", "%C3%A9.py"),
        ("\udce9.py", "%E9.py"),  # a name in Latin-1, as Python gives it
        ("c:d.py", "c%3Ad.py"),  # no scheme
        ("../other/train.py", "file:///home/ann/other/train.py"),
        ("/elsewhere/my train.py", "file:///elsewhere/my%20train.py"),
        ("/home/ann/workshop.py", "file:///home/ann/workshop.py"),
    ],
)
def test_a_path_is_relative_to_the_working_directory_or_whole(path: str, uri: str):
    files = Files(Report(environment=Environment(cwd=CWD)))
    based = {} if uri.startswith("file:") else {"uriBaseId": "SRCROOT"}
    assert files.location(path) == {"uri": uri, **based}


def test_paths_of_windows_are_uris_too():
    files = Files(Report(environment=Environment(cwd="C:\\Users\\ann\\")))
    assert files.location("deep\\my train.py") == {"uri": "deep/my%20train.py", "uriBaseId": "SRCROOT"}
    assert files.location("D:\\a.py") == {"uri": "file:///D:/a.py"}
    assert files.bases() == {"SRCROOT": {"uri": "file:///C:/Users/ann/"}}


@pytest.mark.parametrize("mark", ["a folder", "a file"])
def test_in_a_repository_files_are_named_from_its_root(make, run_of, tmp_path: Path, mark: str):
    root, outer = tmp_path / "outer" / "my repo", tmp_path / "outer"
    cwd = root / "deep" / "sub"
    cwd.mkdir(parents=True)
    (outer / ".git").mkdir()  # the nearest one counts
    (root / ".git").mkdir() if mark == "a folder" else (root / ".git").write_text("gitdir: elsewhere")
    places = ("train.py", "../lib.py", f"{root}/a.py", f"{outer}/b.py")
    report = Report(
        environment=Environment(cwd=f"{cwd}/"),
        script=Script(argv=("train.py",)),
        findings=tuple(make.finding(location=Location(path, 1)) for path in places),
    )
    run = run_of(report)
    uris = {one["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] for one in run["results"]}
    assert uris == {"deep/sub/train.py", "deep/lib.py", "a.py", f"file://{outer}/b.py"}
    assert run["originalUriBaseIds"]["SRCROOT"]["uri"] == f"{root.as_uri()}/"
    assert run["invocations"][0]["workingDirectory"]["uri"] == f"{cwd.as_uri()}/"
    assert run["automationDetails"]["id"] == "gradwright/deep/sub/train.py/"
    for item in run["artifacts"]:
        based = not item["location"]["uri"].startswith("file:")
        assert ("uriBaseId" in item["location"]) is based


def test_a_working_directory_that_is_not_here_is_its_own_root(tmp_path: Path):
    (tmp_path / ".git").mkdir()
    files = Files(Report(environment=Environment(cwd=f"{tmp_path}/gone")))
    assert files.location("train.py") == {"uri": "train.py", "uriBaseId": "SRCROOT"}


def test_without_a_working_directory_nothing_is_based_on_one():
    assert Files(Report()).location("train.py") == {"uri": "train.py"}


@pytest.mark.parametrize("path", ["<string>", "<ipython-input-3-abc>", ""])
def test_what_is_no_file_stands_at_the_script_that_made_it(make, run_of, path: str):
    finding = make.finding(location=Location(path, 3))
    (result,) = run_of(Report(script=Script(argv=("train.py",)), findings=(finding,)))["results"]
    (place,) = result["locations"]
    assert place["physicalLocation"] == {"artifactLocation": {"uri": "train.py"}}
    assert place["message"] == {"text": f"{path}:3"}
    (result,) = run_of(Report(findings=(finding,)))["results"]
    assert result["locations"] == [{"logicalLocations": [{"fullyQualifiedName": "MySquare"}]}]


def test_files_are_listed_once_and_found_by_their_index(make, run_of):
    at = [Location(path, 1) for path in ("train.py", "/x/lib.py", f"{CWD}/train.py", "a.py")]
    report = Report(
        environment=Environment(cwd=CWD),
        sources=(make.source(), make.source("x = 1\n", "a.py"), replace(make.source("", "b.py"), sha256="none")),
        findings=tuple(make.finding(location=one) for one in at),
    )
    run = run_of(report)
    uris = [artifact["location"]["uri"] for artifact in run["artifacts"]]
    assert uris == ["a.py", "b.py", "file:///x/lib.py", "train.py"]
    assert ["hashes" in artifact for artifact in run["artifacts"]] == [True, False, False, True]
    for result in run["results"]:
        place = result["locations"][0]["physicalLocation"]["artifactLocation"]
        assert uris[place["index"]] == place["uri"]


# --- regions ---------------------------------------------------------------------------------------------------------

TEXT = "def f(x):\n\ts = '🙂é' + x\n    return s\n"


@pytest.mark.parametrize(
    ("at", "columns", "text"),
    [
        (Location("a", 2, 2, 2, 3), (2, 3), "s"),  # a tab is one character
        (Location("a", 2, 7, 2, 8), (7, 9), "🙂"),  # two units of UTF-16
        (Location("a", 2, 13, 2, 14), (14, 15), "x"),
        (Location("a", 1, 5, 1, 10), (5, 10), "f(x):"),  # up to the end of the line
    ],
)
def test_columns_are_counted_in_utf16_and_end_after_the_last(at: Location, columns: tuple[int, int], text: str):
    found = region(at, lines_of(TEXT))
    assert found is not None
    assert (found["startColumn"], found["endColumn"]) == columns
    assert found["snippet"] == {"text": text} == {"text": marked(at, lines_of(TEXT))}
    line = TEXT.split("\n")[at.line - 1].encode("utf-16-le")
    assert line[2 * (columns[0] - 1) : 2 * (columns[1] - 1)].decode("utf-16-le") == text


def test_a_place_of_several_lines_has_the_text_of_them_all():
    found = region(Location("a", 1, 5, 3, 11), lines_of(TEXT))
    assert found is not None
    assert (found["startLine"], found["endLine"], found["endColumn"]) == (1, 3, 11)
    assert found["snippet"] == {"text": "f(x):\n\ts = '🙂é' + x\n    return"}


@pytest.mark.parametrize(
    ("at", "expected"),
    [
        (Location("a", 0), None),
        (Location("a", -4, 1, -4, 2), None),
        (Location("a", 3), {"startLine": 3, "snippet": {"text": "    return s"}}),  # the line alone is known
        (Location("a", 3, 9, 2, 1), {"startLine": 3, "snippet": {"text": "    return s"}}),  # ends before it begins
        (Location("a", 3, 9, 3, 9), {"startLine": 3}),  # nothing in it
        (Location("a", 3, 9, 3, 99), {"startLine": 3}),  # not of this text
        (Location("a", 3, 0, 3, 4), {"startLine": 3}),
        (Location("a", 77, 1, 77, 4), {"startLine": 77}),
        (Location("a", 3, 1, 9, 4), {"startLine": 3, "endLine": 9}),
    ],
)
def test_what_is_not_known_or_does_not_fit_is_left_out(at: Location, expected: dict | None):
    assert region(at, lines_of(TEXT)) == expected


def test_without_the_text_there_are_no_columns_to_count():
    assert region(Location("a", 3, 5, 3, 11), None) == {"startLine": 3}
    assert around(Location("a", 3, 5, 3, 11), None) is None


def test_the_lines_around_end_where_the_file_ends():
    lines = lines_of("1\n2\n3\n4\n5\n6\n")
    assert around(Location("a", 4), lines) == {"startLine": 2, "endLine": 6, "snippet": {"text": "2\n3\n4\n5\n6"}}
    assert around(Location("a", 6, 1, 6, 2), lines) == {"startLine": 4, "endLine": 6, "snippet": {"text": "4\n5\n6"}}
    assert around(Location("a", 1), lines_of("1\n")) is None


def test_a_place_too_long_to_be_read_has_no_snippet():
    lines = ["x" * 10] * 90
    found = region(Location("a", 1, 1, 80, 5), lines)
    assert found == {"startLine": 1, "startColumn": 1, "endLine": 80, "endColumn": 5}
    assert "snippet" not in (region(Location("a", 1), ["x" * 5000]) or {})
    assert around(Location("a", 1, 1, 80, 5), lines) is None


def test_lines_are_those_of_python_and_not_of_unicode():
    assert lines_of("a\x0cb\u2028c\r\nd\re") == ["a\x0cb\u2028c", "d", "e"]
