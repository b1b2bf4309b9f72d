"""Standard output that is full, or closed: one line says so, and the exit code is not that of a report."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

COMMANDS = (
    ["report"], ["report", "--format", "json"], ["rules"], ["diff", ".gradwright/last.json"], ["completion", "bash"],
    ["explain", "GW301"],
)  # fmt: skip


def called(words: list[str], redirected: str, folder: Path) -> subprocess.CompletedProcess[str]:
    line = f'exec "$0" -m gradwright "$@" {redirected}'
    return subprocess.run(["sh", "-c", line, sys.executable, *words], cwd=folder, capture_output=True, text=True)


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no device that is always full")  # noqa: PTH110
@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_a_full_standard_output_is_told_in_one_line(words, make, keep, folder: Path):
    keep(make.first_sight())
    done = called(words, ">/dev/full", folder)
    assert done.stderr == "gradwright: standard output can't be written: No space left on device\n"
    assert done.returncode == 3


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_a_closed_standard_output_is_told_in_one_line(words, make, keep, folder: Path):
    keep(make.first_sight())
    done = called(words, ">&-", folder)
    assert done.stderr == "gradwright: nothing can be printed: standard output is closed\n"
    assert done.returncode == 3


def test_a_file_needs_no_standard_output(make, keep, folder: Path):
    keep(make.first_sight())
    done = called(["report", "--output", "x.txt"], ">&-", folder)
    assert (done.returncode, done.stderr) == (1, "")
    assert "findings" in (folder / "x.txt").read_text()


def test_a_reader_that_has_gone_is_no_trouble(make, keep, folder: Path):
    keep(make.first_sight())
    done = called(["report"], "| true", folder)
    assert done.stderr == ""
