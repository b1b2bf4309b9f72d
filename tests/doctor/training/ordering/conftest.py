"""The order of a training step: what is told of it, at which line, and above all what is not."""

import runpy
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest

from gradwright.doctor.observe import watch
from gradwright.doctor.observe.clock import Clock
from gradwright.doctor.observe.watch import Watch
from gradwright.doctor.rules import judge
from gradwright.doctor.session.journal import Journal, fold
from gradwright.doctor.session.model import Finding

MINE = ("GW602", "GW603", "GW604", "GW605", "GW606", "GW607", "GW608", "GW609")


@pytest.fixture(autouse=True)
def no_other_looker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch, "list_files", lambda: ["order"])


@pytest.fixture
def findings(tmp_path: Path) -> Callable[[str, str], list[Finding]]:
    """What our rules say of a script that is watched in this process."""

    def find(head: str, text: str) -> list[Finding]:
        script = tmp_path / "train.py"
        script.write_text(head + textwrap.dedent(text))
        with Journal(tmp_path / "journal") as journal, Watch(journal, Clock()):
            runpy.run_path(str(script))
        report = fold(tmp_path / "journal")
        assert "watching failed" not in (tmp_path / "journal").read_text()
        return [finding for finding in judge(report.subjects, report.facts) if finding.code in MINE]

    return find


@pytest.fixture
def told_once(findings: Callable, tmp_path: Path) -> Callable[..., None]:
    """There is one finding, at the line ``line``, and it says ``said``."""

    def compare(head: str, code: str, line: str, said: str, text: str) -> None:
        told = findings(head, text)
        assert [finding.code for finding in told] == [code]
        lines = (tmp_path / "train.py").read_text().splitlines()
        assert lines[told[0].location.line - 1].strip() == line
        assert said in f"{told[0].message} {told[0].why}"

    return compare


@pytest.fixture
def nothing_said(findings: Callable) -> Callable[[str, str], None]:
    def compare(head: str, text: str) -> None:
        assert [(finding.code, finding.message) for finding in findings(head, text)] == []

    return compare
