"""Arguments, exit codes, and a clear word for what can't be."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from gradwright.doctor.conduct import save
from gradwright.doctor.session.codec import from_json
from gradwright.doctor.session.model import Report

WRONG = (Path(__file__).parents[1] / "cases" / "GW601" / "bad.py").read_text()
CLEAN = (Path(__file__).parents[1] / "cases" / "GW601" / "good.py").read_text()


@pytest.mark.parametrize(
    ("words", "word"),
    [
        (["diagnose"], "which script"),
        (["diagnose", "nowhere.py"], "no script nowhere.py"),
        (["diagnose", "folder"], "directory"),
        (["diagnose", "-m", "no.such.module"], "no.such"),
        (["diagnose", "--max-steps", "0", "x.py"], "max-steps"),
        (["diagnose", "--format", "xml", "x.py"], "xml"),
        (["diagnose", "--nonsense", "x.py"], "nonsense"),
        (["diagnose", "--select"], "requires an argument"),
        (["explain", "GW000"], "nothing is known"),
        (["nonsense"], "nonsense"),
    ],
)
def test_wrong_usage_gets_a_clear_word_and_exit_code_2(
    words: list[str], word: str, gradwright: Callable, tmp_path: Path
) -> None:
    (tmp_path / "folder").mkdir()
    called = gradwright(*words, cwd=tmp_path)
    assert called.code == 2
    assert word in called.stderr
    assert "Traceback" not in called.stderr
    assert called.session is None


def test_findings_exit_1_and_a_clean_script_exits_0(gradwright: Callable, tmp_path: Path) -> None:
    (tmp_path / "bad.py").write_text(WRONG)
    (tmp_path / "good.py").write_text(CLEAN)
    assert gradwright("diagnose", "bad.py", cwd=tmp_path, cold=True).code == 1
    assert gradwright("diagnose", "--exit-zero", "bad.py", cwd=tmp_path).code == 0
    assert gradwright("diagnose", "good.py", cwd=tmp_path).code == 0


def test_a_syntax_error_is_the_scripts_own_and_is_placed(gradwright: Callable, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("import torch\nx = (1,\ny = 2\n")
    plain = subprocess.run([sys.executable, "train.py"], cwd=tmp_path, capture_output=True, text=True)
    called = gradwright("diagnose", "--output", "report.txt", "train.py", cwd=tmp_path)
    assert plain.stderr.splitlines()[-1] in called.stderr
    assert called.session.script.exit_code == 1
    assert [finding.code for finding in called.session.findings] == ["GW901"]
    assert called.session.findings[0].location.line in (2, 3)
    assert called.code == 1


def test_json_is_the_sessions_contract(gradwright: Callable, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(WRONG)
    called = gradwright("diagnose", "--format", "json", "--session", "kept/here.json", "train.py", cwd=tmp_path)
    data = json.loads(called.stdout)
    assert from_json(called.stdout) == from_json((tmp_path / "kept" / "here.json").read_text())
    assert {"schema_version", "environment", "script", "sources", "subjects", "specimens", "facts", "findings",
            "not_examined"} <= set(data)  # fmt: skip
    assert {"argv", "exit_code", "seconds", "stopped_early", "exception", "rank"} <= set(data["script"])
    (finding,) = data["findings"]
    assert {"code", "name", "category", "severity", "subject", "location", "message", "why", "hints", "evidence",
            "candidates", "fix"} <= set(finding)  # fmt: skip
    assert set(finding["location"]) == {"path", "line", "column", "end_line", "end_column"}
    assert set(finding["evidence"]) <= {fact["id"] for fact in data["facts"]}
    assert finding["location"]["path"] == "train.py"


def test_codes_can_be_selected_ignored_and_suppressed(gradwright: Callable, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(WRONG)
    assert gradwright("diagnose", "--select", "GW1,GW3", "train.py", cwd=tmp_path).code == 0
    assert gradwright("diagnose", "--ignore", "gw601", "train.py", cwd=tmp_path).code == 0
    (tmp_path / "pyproject.toml").write_text('[tool.gradwright]\nignore = ["GW6"]\n')
    assert gradwright("diagnose", "train.py", cwd=tmp_path).code == 0
    (tmp_path / "pyproject.toml").unlink()
    remark = "loss.backward()  # gradwright: ignore[GW601] a study of what happens"
    (tmp_path / "train.py").write_text(WRONG.replace("loss.backward()", remark))
    called = gradwright("diagnose", "train.py", cwd=tmp_path)
    assert called.code == 0
    assert [finding.code for finding in called.session.suppressed] == ["GW601"]


@pytest.mark.parametrize("table", ["max-step = 3", 'max-steps = "many"', "to-end = 1", "= nonsense"])
def test_a_table_that_is_not_understood_is_named(table: str, gradwright: Callable, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(CLEAN)
    (tmp_path / "pyproject.toml").write_text(f"[tool.gradwright]\n{table}\n")
    called = gradwright("diagnose", "train.py", cwd=tmp_path)
    assert called.code == 2
    assert "pyproject.toml" in called.stderr


def test_explain_knows_codes_and_messages_without_torch(gradwright: Callable, tmp_path: Path) -> None:
    called = gradwright("explain", "GW301", cwd=tmp_path)
    assert called.code == 0 and "python-loop-over-elements" in called.stdout
    message = "RuntimeError: grad can be implicitly created only for scalar outputs"
    assert "GW611" in gradwright("explain", message, cwd=tmp_path).stdout
    assert "GW611" in gradwright("explain", "-", cwd=tmp_path, stdin=message).stdout
    probe = (
        "import sys; from gradwright.doctor.cli import main\n"
        "try: main(['explain', 'GW301'])\n"
        "except SystemExit: pass\n"
        "assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", probe], check=True, capture_output=True)


def test_a_session_that_cannot_be_written_is_kept_elsewhere(gradwright: Callable, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(CLEAN)
    (tmp_path / ".gradwright").write_text("a file where the folder should be")
    called = gradwright("diagnose", "train.py", cwd=tmp_path)
    assert "the session is in" in called.stderr
    kept = Path(called.stderr.split("the session is in ")[1].split("\n")[0])
    assert from_json(kept.read_text()).script.exit_code == 0
    kept.unlink()


def test_colour_is_for_terminals_unless_asked_for(gradwright: Callable, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(WRONG)
    assert "\x1b[" not in gradwright("diagnose", "train.py", cwd=tmp_path).stdout
    forced = gradwright("diagnose", "train.py", cwd=tmp_path, env={"FORCE_COLOR": "1"})
    assert "\x1b[" in forced.stdout
    assert "\x1b[" not in gradwright("diagnose", "train.py", cwd=tmp_path, env={**os.environ, "NO_COLOR": "1"}).stdout


def test_an_old_session_is_replaced_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "last.json"
    save(Report(), path)
    before = path.read_text()

    def full(descriptor: int) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="disk full"):
        save(Report(), path)
    assert path.read_text() == before
    assert [item.name for item in tmp_path.iterdir()] == ["last.json"]


def test_a_terminal_that_is_not_utf8_gets_the_report(gradwright: Callable, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(WRONG)
    called = gradwright("diagnose", "train.py", cwd=tmp_path, env={"PYTHONIOENCODING": "ascii"}, cold=True)
    assert called.code == 1 and "GW601" in called.stdout
