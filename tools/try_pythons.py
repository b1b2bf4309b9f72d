"""The wheel on each Python that is here, installed by pip as a user would: `make test-pythons`.

    python tools/try_pythons.py              3.11, 3.12, 3.13, 3.14
    python tools/try_pythons.py 3.13         that one

Each has an environment of its own, under a temporary folder, with the newest torch that pip finds for it, for the CPU
(tools/torch_environment), and the lock file's versions of everything else. There tools/release/smoke.py runs, which
needs nothing but the wheel. A Python that isn't on this machine is looked for under ~/.pyenv, then asked of uv; what
can't be had is said, in one line each, and is no failure unless it was asked for by name.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from torch_environment.environment import ROOT, Environment, find_version, make_environment
from torch_environment.pythons import find_python

VERSIONS = ("3.11", "3.12", "3.13", "3.14")
SMOKE = ROOT / "tools" / "release" / "smoke.py"


@dataclass(frozen=True)
class Trial:
    """``ok``: None where there is no such Python."""

    version: str
    ok: bool | None
    said: str


def try_wheel(version: str, wheel: Path, torch: str, folder: Path) -> Trial:
    """Install the wheel with this Python and run the smoke of the release there, in an empty folder."""
    python = find_python(version, folder)
    if python is None:
        return Trial(version, None, "not tried: it is not on this machine, and uv can't fetch it (from GitHub)")
    environment = Environment(folder / f"environment-{version}")
    empty = folder / f"empty-{version}"
    empty.mkdir()
    try:
        make_environment(environment, python)
        environment.install_light_torch(torch)
        environment.install("--constraint", write_constraints(folder), wheel)
        subprocess.run([environment.python, "-m", "pip", "check"], check=True)
        done = subprocess.run(
            [environment.python, "-I", "-W", "error", SMOKE],
            cwd=empty,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
    except subprocess.CalledProcessError as error:
        return Trial(version, False, f"it can't be installed: {error}")
    finally:
        shutil.rmtree(environment.folder, ignore_errors=True)  # 1.5 GB
    return Trial(version, done.returncode == 0, done.stdout.strip())


def write_constraints(folder: Path) -> Path:
    """The lock file without torch, of which each Python has its own newest."""
    lines = (ROOT / "requirements" / "lock.txt").read_text("utf-8").splitlines(keepends=True)
    constraints = folder / "constraints.txt"
    constraints.write_text("".join(line for line in lines if not line.startswith("torch==")), "utf-8")
    return constraints


def build_wheel(folder: Path) -> Path:
    words: list[str | Path] = [sys.executable, ROOT / "tools" / "release", "--no-trial", "--into", folder / "dist"]
    subprocess.run(words, check=True, stdout=subprocess.DEVNULL)
    (wheel,) = (folder / "dist").glob("*.whl")
    return wheel


def main() -> int:
    asked_for = sys.argv[1:]
    with tempfile.TemporaryDirectory(prefix="gradwright-pythons-") as name:
        folder = Path(name)
        wheel, torch = build_wheel(folder), find_version("newest")
        trials = []
        for version in asked_for or VERSIONS:
            trials.append(try_wheel(version, wheel, torch, folder))
            said = {True: "passed", False: "FAILED", None: ""}[trials[-1].ok]
            print(
                f"Python {version}, torch {torch}: {said}\n  {trials[-1].said.replace(chr(10), chr(10) + '  ')}",
                flush=True,
            )
    tried = [trial for trial in trials if trial.ok is not None]
    missing = asked_for and len(tried) < len(trials)
    return 1 if missing or not tried or not all(trial.ok for trial in tried) else 0


if __name__ == "__main__":
    sys.exit(main())
