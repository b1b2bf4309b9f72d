"""Sessions in a folder, and the command line in this very process, which is a hundred times cheaper than a new one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from tests.doctor.render.conftest import Maker

from gradwright.doctor.cli import main
from gradwright.doctor.session.codec import to_json
from gradwright.doctor.session.model import Report


@pytest.fixture
def make() -> Maker:
    return Maker()


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def keep(folder: Path) -> Callable[..., Path]:
    """A report as a session file below the working directory."""

    def kept(report: Report, name: str = ".gradwright/last.json") -> Path:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(to_json(report))
        return path

    return kept


@pytest.fixture
def call(folder: Path) -> Callable[..., Result]:
    """``call("report", "--format", "json")``: what it exits with and prints."""

    def called(*words: str) -> Result:
        found = CliRunner().invoke(main, words, prog_name="gradwright", catch_exceptions=False)
        assert "Traceback" not in found.output
        return found

    return called
