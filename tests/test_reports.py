"""A report is made once for what it hangs on, and anew when any of that is another."""

import dataclasses
import os
import sys
from pathlib import Path

import pytest
from tests import reports
from tests.reports import Made, kept_or_made


@pytest.fixture
def ask(tmp_path: Path):
    """``ask(folder, max_steps=3)``: what is told, by a doctor that counts how often it is asked."""
    made: list[str] = []

    def tell(folder: Path, **asked: object) -> tuple[str, int]:
        def make() -> Made:
            made.append(str(folder))
            return Made(f'{{"path": "{folder}/train.py", "run": {len(made)}}}', f"in {folder}", "")

        answer = kept_or_made(folder, {"cwd": str(folder), **asked}, make, kept=tmp_path / "kept")
        assert answer.stdout == f"in {folder}"
        return answer.journal, len(made)

    return tell


@pytest.fixture
def script(tmp_path: Path) -> Path:
    (tmp_path / "one").mkdir()
    (tmp_path / "one" / "train.py").write_text("import torch\n")
    return tmp_path / "one"


def test_the_same_is_made_once_wherever_it_lies(ask, script: Path, tmp_path: Path) -> None:
    other = tmp_path / "two"
    other.mkdir()
    (other / "train.py").write_text("import torch\n")
    assert ask(script) == (f'{{"path": "{script}/train.py", "run": 1}}', 1)
    assert ask(other) == (f'{{"path": "{other}/train.py", "run": 1}}', 1)


def test_another_text_question_or_doctor_has_a_report_of_its_own(
    ask, script: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert ask(script)[1] == 1
    assert ask(script, max_steps=3)[1] == 2
    (script / "helper.py").write_text("")
    assert ask(script)[1] == 3
    (script / "train.py").write_text("import torch  # changed\n")
    assert ask(script)[1] == 4
    assert ask(script)[1] == 4
    monkeypatch.setattr(reports, "doctor", lambda: "another doctor's digest")
    assert ask(script)[1] == 5


def test_what_another_doctor_said_is_removed_when_it_is_old(
    ask, script: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ask(script)
    (first,) = (tmp_path / "kept").iterdir()
    monkeypatch.setattr(reports, "doctor", lambda: "of the second one")
    ask(script)
    assert len([*(tmp_path / "kept").iterdir()]) == 2
    os.utime(first, (0, 0))
    monkeypatch.setattr(reports, "doctor", lambda: "of the third one")
    ask(script)
    kept = {each.name for each in (tmp_path / "kept").iterdir()}
    assert kept == {"of the second one"[:16], "of the third one"[:16]}


def test_a_doctor_is_every_file_of_ours_every_package_and_python(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = tmp_path / "src"
    source.mkdir()
    (source / "rule.py").write_text("CODE = 1\n")
    monkeypatch.setattr(reports, "HERE", tmp_path / "tests")
    monkeypatch.setattr(reports, "DOCTOR", (source,))

    def digest() -> str:
        reports.doctor.cache_clear()
        return reports.doctor()

    seen = [digest(), digest()]
    (source / "rule.py").write_text("CODE = 2\n")
    seen.append(digest())
    (source / "page.html").write_text("<p>")
    seen.append(digest())
    monkeypatch.setattr(sys, "version", "4.0")
    seen.append(digest())
    monkeypatch.setattr(reports, "distributions", list)
    seen.append(digest())
    monkeypatch.setenv("GRADWRIGHT_SOMETHING", "1")
    seen.append(digest())
    reports.doctor.cache_clear()
    assert len(set(seen)) == len(seen) - 1 and seen[0] == seen[1]


def test_nothing_is_kept_of_what_failed(script: Path, tmp_path: Path) -> None:
    def fail() -> Made:
        raise ValueError("no report")

    with pytest.raises(ValueError, match="no report"):
        kept_or_made(script, {}, fail, kept=tmp_path / "kept")
    made = Made("{}", "", "")
    assert kept_or_made(script, {}, lambda: made, kept=tmp_path / "kept") == made


def test_what_is_kept_is_what_was_made(script: Path, tmp_path: Path) -> None:
    made = Made('{"é": "\\u00e9"}', "\x00\x1b[1mbold\n", "two\nlines")
    for _ in range(2):
        found = kept_or_made(script, {}, lambda: made, kept=tmp_path / "kept")
        assert dataclasses.asdict(found) == dataclasses.asdict(made)
