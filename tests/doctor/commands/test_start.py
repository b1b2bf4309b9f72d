"""The command line starts quickly: what it does not need is not loaded. Seconds are the benchmarks' business."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from gradwright.doctor.cli import main

HEAVY = {"torch", "rich", "jinja2", "libcst", "numba", "numpy", "asyncio", "tomllib", "http", "pygments"}
MOST_MODULES = 240  # of the standard library, click and ours: 172 are loaded with Python 3.11

_PROBE = """
import atexit, json, os, sys
def tell():
    with open({told!r}, "w") as stream:
        json.dump(sorted(sys.modules), stream)
atexit.register(tell)
from gradwright.doctor.cli import main
main({words!r}, prog_name="gradwright")
"""


def loaded(words: list[str], folder: Path, **environment: str) -> list[str]:
    """The modules in a new process after this command."""
    told = folder / "modules.json"
    code = _PROBE.format(told=str(told), words=words)
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=folder, capture_output=True, text=True, env={**os.environ, **environment}
    )
    assert "Traceback" not in done.stderr and (done.stdout or done.stderr)
    return list(json.loads(told.read_text()))


@pytest.mark.parametrize(
    "words",
    [["--help"], ["--version"], ["nonsense"], *[[name, "--help"] for name in main.commands]],
    ids=" ".join,
)  # fmt: skip
def test_help_loads_nothing_that_takes_its_time(words: list[str], tmp_path: Path) -> None:
    modules = loaded(words, tmp_path)
    assert not HEAVY & {name.partition(".")[0] for name in modules}
    ours = [name for name in modules if name.startswith("gradwright.")]
    assert not [name for name in ours if name.startswith(("gradwright.doctor.session", "gradwright.doctor.rules"))]
    assert len(modules) < MOST_MODULES


def test_completion_loads_the_rules_and_no_more(tmp_path: Path) -> None:
    asks = {"_GRADWRIGHT_COMPLETE": "bash_complete", "COMP_WORDS": "gradwright re", "COMP_CWORD": "1"}
    modules = loaded([], tmp_path, **asks)
    assert not HEAVY & {name.partition(".")[0] for name in modules}
    assert len(modules) < MOST_MODULES
    modules = loaded([], tmp_path, **{**asks, "COMP_WORDS": "gradwright explain GW3", "COMP_CWORD": "2"})
    assert not HEAVY & {name.partition(".")[0] for name in modules}


@pytest.mark.parametrize(
    "words",
    [["rules"], ["exercise"], ["exercise", "5"], ["report", "session.json"], ["diff", "session.json", "session.json"]],
)
def test_no_command_that_runs_no_script_loads_torch(words: list[str], tmp_path: Path, make) -> None:
    from gradwright.doctor.session.codec import to_json

    (tmp_path / "session.json").write_text(to_json(make.first_sight()))
    assert not {"torch", "libcst", "numba", "numpy"} & set(loaded(words, tmp_path))


def test_it_is_a_module_too(tmp_path: Path) -> None:
    """``python -m gradwright`` is ``gradwright``, by name as well."""
    command = [sys.executable, "-m", "gradwright"]
    done = subprocess.run([*command, "--help"], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0 and done.stdout.startswith("Usage: gradwright [OPTIONS] COMMAND")
    script = Path(sys.executable).with_name("gradwright")
    if script.is_file():
        installed = subprocess.run([script, "--help"], cwd=tmp_path, capture_output=True, text=True)
        assert (installed.returncode, installed.stdout) == (0, done.stdout)
    done = subprocess.run([*command, "explain", "GW000"], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 2


def test_commands_stand_in_the_order_in_which_they_are_needed() -> None:
    from click.testing import CliRunner

    lines = CliRunner().invoke(main, ["--help"], prog_name="gradwright").stdout.partition("Commands:\n")[2].splitlines()
    assert [line.split()[0] for line in lines] == [
        "diagnose",
        "fix",
        "report",
        "diff",
        "explain",
        "rules",
        "exercise",
        "completion",
    ]
    assert not [line for line in lines if "..." in line]  # each in a line of its own, whole
