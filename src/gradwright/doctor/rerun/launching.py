"""A run of the script in a process of its own, with its prints thrown away, and the answer that it leaves."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from gradwright.doctor.rerun.request import ANSWER
from gradwright.doctor.source.places import home

_START = "import sys; sys.path.pop(0); from gradwright.doctor.rerun.{} import main; main(sys.argv[1])"


def answer_of(
    module: str, write: Callable[[Path], None], environment: dict[str, str], seconds: float
) -> dict[str, Any] | None:
    """What ``module``'s process answered, None if it ended without. ``write`` puts its requests into a folder.

    Raises: TimeoutError after ``seconds`` and a little; OSError where it can't be started.
    """
    folder = Path(tempfile.mkdtemp(prefix="gradwright-"))
    try:
        write(folder)
        nowhere = subprocess.DEVNULL
        process = subprocess.Popen(
            [sys.executable, "-c", _START.format(module), str(folder)],
            cwd=home(), env=environment, stdin=nowhere, stdout=nowhere, stderr=nowhere,
        )  # fmt: skip
        try:
            process.wait(seconds + 5)
        except subprocess.TimeoutExpired:
            raise TimeoutError from None
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()
        answer = folder / ANSWER
        data: dict[str, Any] | None = json.loads(answer.read_text()) if answer.is_file() else None
        return data
    finally:
        shutil.rmtree(folder, ignore_errors=True)
