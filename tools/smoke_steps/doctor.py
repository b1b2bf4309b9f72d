"""The command line: ``diagnose`` of shipped scripts, ``fix`` of one, ``--version``, each in a process of its own."""

from __future__ import annotations

import importlib.metadata
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from smoke_steps.step import ROOT

CASES = ROOT / "tests" / "cases"


def run_command(*words: str | Path, folder: Path | str = ROOT, ends: int) -> str:
    """What ``gradwright`` prints, which has to end with this exit code."""
    command = [sys.executable, "-m", "gradwright", *words]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=170)
    assert done.returncode == ends, f"exit code {done.returncode}, not {ends}: {done.stdout}{done.stderr}"
    return done.stdout


def diagnose(script: Path, *, ends: int) -> set[str]:
    """The codes of all findings, in a folder that is thrown away."""
    with tempfile.TemporaryDirectory() as folder:
        printed = run_command("diagnose", script, folder=folder, ends=ends)
    return set(re.findall(r"^(GW\d+)", printed, re.MULTILINE))


def version_is_printed() -> None:
    """gradwright --version."""
    assert importlib.metadata.version("gradwright") in run_command("--version", ends=0)


def diagnose_finds_a_wrong_shape() -> None:
    """gradwright diagnose: a cotangent of the wrong shape (GW203)."""
    assert "GW203" in diagnose(CASES / "GW203" / "bad.py", ends=1)


def diagnose_finds_a_wrong_mask() -> None:
    """gradwright diagnose: masks of a loss that overlap (GW501)."""
    assert "GW501" in diagnose(CASES / "GW501" / "bad.py", ends=1)


def diagnose_finds_a_fault_of_training() -> None:
    """gradwright diagnose: a fault of the training loop (GW604)."""
    assert "GW604" in diagnose(CASES / "GW604" / "bad.py", ends=1)


def diagnose_passes_a_clean_script() -> None:
    """gradwright diagnose of a clean script: exit code 0, nothing found."""
    assert diagnose(CASES / "GW604" / "good.py", ends=0) == set()


def fix_mends_a_script() -> None:
    """gradwright fix --apply: a wrong gradient is mended, and found right after."""
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder, "train.py")
        script.write_text((CASES / "GW101" / "bad.py").read_text("utf-8"), "utf-8")
        run_command("diagnose", "--select", "GW1", script.name, folder=folder, ends=1)
        run_command("fix", "--apply", script.name, folder=folder, ends=0)
        run_command("diagnose", "--select", "GW1", script.name, folder=folder, ends=0)


STEPS = (
    version_is_printed,
    diagnose_finds_a_wrong_shape,
    diagnose_finds_a_wrong_mask,
    diagnose_finds_a_fault_of_training,
    diagnose_passes_a_clean_script,
    fix_mends_a_script,
)
