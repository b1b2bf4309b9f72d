"""A fix in SARIF makes of the file what ``gradwright fix`` makes of it, or is not there."""

from __future__ import annotations

import hashlib
import importlib.util
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gradwright.doctor.mending.combining import plan
from gradwright.doctor.render.sarif.fixes import fixes, line_end
from gradwright.doctor.render.sarif.places import Files
from gradwright.doctor.session import hunks
from gradwright.doctor.session.hunks import edits_of, unified
from gradwright.doctor.session.model import Environment, Finding, Fix, Proof, Report, Source
from gradwright.doctor.session.place import Location

PROOF = Proof("verified", ("x",), 0.0, 1e-6, 0)
LOOP = "import torch\n\n\ndef f(x):\n    y = x + 0  # é\n    return y\n"


def applied(text: str, replacements: list[dict]) -> str:
    """What a reader of SARIF makes of the text of the file: lines as the log declares them, columns in UTF-16."""
    starts = [0, *(match.end() for match in re.finditer(r"\r\n|\n|\r", text))]

    def offset(line: int, column: int) -> int:
        start = starts[line - 1]  # a line that there is not raises
        rest = text[start:].encode("utf-16-le")
        return start + len(rest[: 2 * (column - 1)].decode("utf-16-le"))

    def ends(item: dict) -> tuple[int, int]:
        place = item["deletedRegion"]
        return offset(place["startLine"], place["startColumn"]), offset(place["endLine"], place["endColumn"])

    made, at = "", 0
    for item in sorted(replacements, key=ends):
        start, end = ends(item)
        assert at <= start <= end <= len(text)
        made, at = made + text[at:start] + item["insertedContent"]["text"], end
    return made + text[at:]


def reported(data: bytes, new: str, path: str = "train.py", unsafe: str = "", cwd: str = "/work") -> Report:
    """A report of one fix, that makes ``new`` of the file."""
    text = importlib.util.decode_source(data)
    lines = [re.findall(r"[^\n]*\n|[^\n]+", part) for part in (text, new)]
    fix = Fix("".join(unified(path, *lines)), PROOF, unsafe)
    finding = Finding("GW301", "n", "speed", "warning", "f", Location(path, 1), "slow", "it is", fix=fix)
    source = Source(path, hashlib.sha256(data).hexdigest(), text)
    return Report(environment=Environment(cwd=cwd), sources=(source,), findings=(finding,))


def replacements(report: Report) -> list[dict] | None:
    (finding,) = report.findings
    made = fixes(finding, report, Files(report))
    return made[0]["artifactChanges"][0]["replacements"] if made else None


def encodings() -> dict[str, Callable[[str], bytes]]:
    return {
        "as Linux writes it": str.encode,
        "as Windows writes it": lambda text: text.replace("\n", "\r\n").encode(),
        "with a byte order mark": lambda text: b"\xef\xbb\xbf" + text.replace("\n", "\r\n").encode(),
        "in Latin-1": lambda text: f"# coding: latin-1\n{text}".replace("\n", "\r\n").encode("latin-1"),
    }


CHANGES = {
    "a line": lambda text: text.replace("x + 0", "x"),
    "a line more": lambda text: text.replace("    return y", "    y = y * 1\n    return y"),
    "a line less": lambda text: text.replace("    y = x + 0  # é\n", "").replace("return y", "return x"),
    "the first and the last": lambda text: text.replace("import torch", "import math").replace("return y", "return x"),
    "lines at the end": lambda text: text + "\n\ndef g(x):\n    return x\n",
    "no last line": lambda text: text.removesuffix("    return y\n"),
    "no line end at the end": lambda text: text.removesuffix("\n"),
}


def as_old_macs_wrote_it(text: str) -> bytes:
    return text.removesuffix("\n").replace("\n", "\r").encode()


@pytest.mark.parametrize(
    ("change", "written"),
    [
        *(
            pytest.param(change, written, id=f"{what} {how}")
            for what, change in CHANGES.items()
            for how, written in encodings().items()
        ),
        pytest.param(CHANGES["a line"], as_old_macs_wrote_it, id="a line as old Macs wrote it"),
    ],
)
def test_what_sarif_replaces_is_byte_for_byte_what_gradwright_fix_writes(change, written, tmp_path: Path, run_of):
    data = written(LOOP)
    (tmp_path / "train.py").write_bytes(data)
    text = importlib.util.decode_source(data)
    report = reported(data, change(text), cwd=str(tmp_path))
    (mended,) = plan(report.findings, report, here=tmp_path, unsafe=False, outside=False).files
    found = replacements(report)
    assert found is not None
    encoding = "latin-1" if b"latin-1" in data else "utf-8-sig" if data.startswith(b"\xef") else "utf-8"
    assert applied(data.decode(encoding), found).encode(encoding) == mended.new != data
    run_of(report)  # and the log is valid


lines = st.lists(st.sampled_from(["a", "b", "", "é🙂", "\tc\x0c"]), max_size=6)


@given(old=lines, new=lines, ended=st.booleans(), new_ended=st.booleans(), end=st.sampled_from(["\n", "\r\n"]))
def test_any_change_of_any_text_is_made_exactly(old, new, ended, new_ended, end):
    before, after = ("\n".join(part) + "\n" * (last and bool(part)) for part, last in ((old, ended), (new, new_ended)))
    if before == after:
        return
    data = before.replace("\n", end).encode()
    found = replacements(reported(data, after))
    assert found is not None
    made = applied(data.decode(), found)
    assert made.replace("\r\n", "\n") == after
    if "\n" in before:
        assert made == after.replace("\n", end)
    if after.endswith("\n"):  # then no place lies after the last line, where some readers know none
        assert all(
            item["deletedRegion"]["endLine"] <= max(1, before.count("\n") + (not before.endswith("\n")))
            for item in found
        )


def test_a_replacement_of_whole_lines_ends_before_the_next_one():
    found = replacements(reported(LOOP.encode(), LOOP.replace("x + 0", "x")))
    assert found == [
        {
            "deletedRegion": {"startLine": 5, "startColumn": 1, "endLine": 6, "endColumn": 1},
            "insertedContent": {"text": "    y = x  # é\n"},
        }
    ]


MENDED = LOOP.replace("x + 0", "x")


@pytest.mark.parametrize(
    "report",
    [
        pytest.param(reported(LOOP.encode(), MENDED, unsafe="it rounds at 0"), id="unsafe"),
        pytest.param(reported(LOOP.encode(), MENDED, path="/elsewhere/a.py"), id="outside"),
        pytest.param(reported(LOOP.encode(), MENDED, path="../a.py"), id="above"),
        pytest.param(reported(LOOP.encode(), MENDED, path=".venv/lib/site-packages/a.py"), id="installed"),
        pytest.param(reported(LOOP.encode(), MENDED, path="<string>"), id="no file"),
        pytest.param(reported(LOOP.encode().replace(b"\n", b"\r\n", 2), MENDED), id="mixed line ends"),
        pytest.param(replace(reported(LOOP.encode(), MENDED), sources=()), id="no text"),
    ],
)
def test_what_gradwright_fix_would_not_write_is_no_fix_and_its_diff_is_still_told(report: Report, run_of):
    assert replacements(report) is None
    (result,) = run_of(report)["results"]
    assert "fixes" not in result
    assert result["properties"]["diff"] == report.findings[0].fix.diff
    assert result["properties"]["proof"]["verdict"] == "verified"


def test_in_a_repository_it_is_the_working_directory_that_fixes_stay_in(tmp_path: Path, run_of):
    cwd = tmp_path / "sub"
    cwd.mkdir()
    (tmp_path / ".git").mkdir()
    (result,) = run_of(reported(LOOP.encode(), MENDED, cwd=str(cwd)))["results"]
    (change,) = result["fixes"][0]["artifactChanges"]
    assert change["artifactLocation"]["uri"] == "sub/train.py"
    assert replacements(reported(LOOP.encode(), MENDED, path="../train.py", cwd=str(cwd))) is None


def test_a_diff_of_another_text_is_no_fix():
    report = reported(LOOP.encode(), MENDED)
    other = LOOP.replace("x + 0", "x + 1")
    source = Source("train.py", hashlib.sha256(other.encode()).hexdigest(), other)
    assert replacements(replace(report, sources=(source,))) is None


def test_a_line_put_after_one_without_an_end_stands_where_gradwright_fix_puts_it():
    report = reported(b"x = 1", "x = 2")
    diff = "--- train.py\n+++ train.py\n@@ -1 +1,2 @@\n x = 1\n\\ No newline at end of file\n+# y\n"
    finding = replace(report.findings[0], fix=Fix(diff, PROOF))
    found = replacements(replace(report, findings=(finding,)))
    assert found is not None
    assert applied("x = 1", found) == "x = 1# y\n" == "".join(hunks.applied(edits_of(diff, ["x = 1"]), ["x = 1"]))


def test_without_a_working_directory_a_relative_path_is_still_one():
    assert replacements(reported(LOOP.encode(), MENDED, cwd="")) is not None


@pytest.mark.parametrize("text", ["# coding: nonsense\nx = 1\n", "x = '\ud800'\n", "x = 1\r\n"])
def test_line_ends_that_cannot_be_told_are_not_guessed(text: str):
    assert line_end(Source("a.py", hashlib.sha256(text.encode("utf-8", "replace")).hexdigest(), text)) is None
