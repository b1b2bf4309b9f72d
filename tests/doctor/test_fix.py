"""From a slow script to a mended one: diagnosed, shown, applied, diagnosed again."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from gradwright.doctor.conduct import save

EXAMPLE = Path(__file__).parents[2] / "examples" / "element_loop" / "train.py"


@pytest.fixture
def script(tmp_path: Path) -> Path:
    return Path(shutil.copy(EXAMPLE, tmp_path / "train.py"))


def test_the_fixes_that_were_proved_are_those_that_are_made(
    script: Path, run: Callable, gradwright: Callable, tmp_path: Path
):
    ran = run(script, "--size", "12", cwd=tmp_path)
    fixed = [finding for finding in ran.report.findings if finding.fix is not None]
    assert {finding.subject for finding in fixed} == {"SlowCube"}
    save(ran.report, tmp_path / ".gradwright" / "last.json")
    text = script.read_text()

    called = gradwright("fix", "train.py", "--size", "12", cwd=tmp_path)
    assert called.code == 1, called.stderr
    assert called.stdout.count("--- train.py\n") == len(fixed)
    assert script.read_text() == text

    called = gradwright("fix", "--apply", "train.py", "--size", "12", cwd=tmp_path)
    assert called.code == 0, called.stderr
    assert "the old text is in train.py.orig" in called.stdout
    assert "gradwright diagnose train.py --size 12 tries them together" in " ".join(called.stdout.split())
    assert (tmp_path / "train.py.orig").read_text() == text
    again = run(script, "--size", "12", cwd=tmp_path)
    assert again.stdout.splitlines()[-1] == ran.stdout.splitlines()[-1] == "the two cubes differ by 0.0e+00"
    assert not {"GW301", "GW101"} & set(again.codes)


def test_a_script_without_a_session_is_diagnosed_first_and_then_its_session_is_used(
    gradwright: Callable, tmp_path: Path
):
    (tmp_path / "train.py").write_text("print('the script ran')\n")
    called = gradwright("fix", "train.py", cwd=tmp_path)
    assert called.code == 0
    assert "there is no session yet: diagnosing first" in called.stderr
    assert "the script ran" in called.stderr and "the script ran" not in called.stdout
    assert "nothing to fix" in called.stdout
    assert called.session is not None
    assert "the script ran" not in gradwright("fix", "train.py", cwd=tmp_path).stderr
    (tmp_path / "train.py").write_text("print('it ran again')\n")
    called = gradwright("fix", "--diff", "train.py", cwd=tmp_path)
    assert "train.py was changed since the last session: diagnosing first" in called.stderr
    assert "it ran again" in called.stderr and called.stdout == ""


def test_a_doctor_that_fails_exits_3_and_its_session_is_not_taken_for_whole(gradwright: Callable, tmp_path: Path):
    spoiler = tmp_path / "sitecustomize.py"
    spoiler.write_text(
        "import gradwright.doctor.examination as examination\n"
        "def probe(*_): raise RuntimeError('the doctor is ill')\n"
        "examination.judge_journal = probe\n"
    )
    (tmp_path / "train.py").write_text("print('the script ran')\n")
    called = gradwright("fix", "train.py", cwd=tmp_path, env={"PYTHONPATH": str(tmp_path)}, cold=True)
    assert called.code == 3
    assert "the doctor is ill" in called.stderr
    spoiler.unlink()
    called = gradwright("fix", "train.py", cwd=tmp_path)
    assert "the last session was cut short: diagnosing first" in called.stderr
    assert called.code == 0
