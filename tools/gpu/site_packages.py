"""The wheels that travelled, installed beside what a machine has: in a folder of their own, which comes first."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

from gpu.results import Outcome, Result

WHEELS = Path(__file__).resolve().parents[2] / ".whl"
#: The Python of the machine with a GPU, for which the wheels are.
PYTHON = "3.12"


def install_wheels(folder: Path) -> Result:
    """Install all wheels into ``folder``.  What fails here fails nothing else: the machine has much of it itself."""
    started = time.monotonic()
    wheels = sorted(WHEELS.glob("*.whl"))
    if not wheels:
        why = f"there are no wheels in {WHEELS.name}: `make gpu-pack` fetches them, and they have to travel too"
        return Result("machine", "wheels", "failed", why=why)
    here = f"{sys.version_info.major}.{sys.version_info.minor}"
    if here != PYTHON:
        return Result("machine", "wheels", "skipped", why=f"they are for Python {PYTHON}, this is {here}")
    words = ["--quiet", "--disable-pip-version-check", "--no-index", "--no-deps", "--no-compile", "--no-cache-dir"]
    pip = [sys.executable, "-m", "pip", "install", *words, "--target", folder, *wheels]
    done = subprocess.run([str(word) for word in pip], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    outcome: Outcome = "failed" if done.returncode else "passed"
    why = "they can't be installed" if done.returncode else ""
    took = time.monotonic() - started
    return Result("machine", "wheels", outcome, took, why, done.stdout, {"wheels": [path.name for path in wheels]})
