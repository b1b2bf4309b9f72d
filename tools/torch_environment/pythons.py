"""Other Pythons than the one that runs this: where they are on this machine, or from where they come."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from torch_environment.environment import Environment, make_environment


def find_python(version: str, folder: Path) -> Path | None:
    """The interpreter of a minor version; uv, which fetches it into ``folder``, is asked last."""
    on_path = [Path(found)] if (found := shutil.which(f"python{version}")) else []
    beside = Path(sys.base_prefix).parent.glob(f"{version}.*/bin/python{version}")  # as pyenv keeps them
    runs = (python for python in [*on_path, *sorted(beside)] if does_run(python))
    return next(runs, None) or fetch_python(version, folder)


def does_run(python: Path) -> bool:
    """pyenv puts files on the path that only say which Python would have to be chosen."""
    return subprocess.run([python, "-c", ""], capture_output=True).returncode == 0


def fetch_python(version: str, folder: Path) -> Path | None:
    """By ``uv python install``, which downloads it from GitHub; None where that can't be reached."""
    tool = Environment(folder / "uv")
    make_environment(tool, Path(sys.executable))
    tool.install("uv")
    uv = tool.folder / "bin" / "uv"
    places = os.environ | {"UV_PYTHON_INSTALL_DIR": str(folder / "pythons")}
    asked = subprocess.run([uv, "python", "install", "--no-bin", version], env=places, capture_output=True, text=True)
    if asked.returncode:
        return None
    found = subprocess.run([uv, "python", "find", version], env=places, check=True, capture_output=True, text=True)
    return Path(found.stdout.strip())
