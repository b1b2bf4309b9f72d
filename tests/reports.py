"""Reports of the doctor that are made once: what it said of a script is read again where nothing of it has changed.

A report belongs to the files of the script's folder, to what was asked, to every file of the doctor, to Python and to
the installed packages. Where the folder lies makes no difference: what is kept has a placeholder for its path. Workers
of one run wait for one another, and local runs share what they made; a clean checkout has nothing. What another doctor
has said is removed a day after its last new report.
"""

from __future__ import annotations

import contextlib
import fcntl
import functools
import hashlib
import json
import os
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from importlib.metadata import distributions
from pathlib import Path

HERE = Path(__file__).parent
KEPT = HERE.parent / ".pytest_cache" / "reports"
#: What makes a report, besides the script: the doctor, and how the tests start it.
STARTING = ("chance.py", "conftest.py", "large_pages.py", "reports.py", "warm.py", "zygote.py")
DOCTOR = (HERE.parent / "src", *(HERE / name for name in STARTING))
MOST_FILES = 100  # of a script's folder; of a larger one nothing is kept
A_DAY = 86_400
_FOLDER = "<the script's folder>"


@dataclass(frozen=True)
class Made:
    """What a run of the doctor left: its journal, and what the script printed."""

    journal: str
    stdout: str
    stderr: str


def kept_or_made(folder: Path, asked: dict[str, object], make: Callable[[], Made], kept: Path = KEPT) -> Made:
    """What ``make`` gives, or gave before for the same files in ``folder`` and the same ``asked``."""
    files = _list_files(folder)
    if len(files) > MOST_FILES:
        return make()
    question = _hidden(json.dumps(asked, sort_keys=True), folder)
    answers = kept / doctor()[:16]
    contents = [(str(path.relative_to(folder)), path.read_bytes()) for path in files]
    path = answers / f"{_digest([(question, b''), *contents])}.json"
    with _one_at_a_time(path, kept, answers):
        if not path.is_file():
            made = make()
            text = json.dumps({name: _hidden(part, folder) for name, part in asdict(made).items()})
            new = path.with_suffix(f".{os.getpid()}")
            new.write_text(text)
            new.rename(path)  # whole or not at all
            return made
        return Made(**{name: _shown(part, folder) for name, part in json.loads(path.read_text()).items()})


@functools.cache
def doctor() -> str:
    """A digest of all that a report depends on besides its script."""
    files = [path for top in DOCTOR for path in (_list_files(top) if top.is_dir() else [top])]
    settings = [f"{name}={value}" for name, value in os.environ.items() if name.startswith(("GRADWRIGHT_", "OMP_"))]
    packages = [f"{each.name} {each.version}" for each in distributions()]
    parts = [(str(path.relative_to(HERE.parent)), path.read_bytes()) for path in files]
    return _digest([(json.dumps([sys.version, sorted(settings), sorted(packages)]), b""), *parts])


def _list_files(folder: Path) -> list[Path]:
    """The files of a folder, without what Python, pytest and the doctor itself keep there."""
    passing = ("__pycache__", ".gradwright", ".pytest_cache")
    return sorted(
        path
        for path in folder.rglob("*")
        if path.is_file() and not set(passing) & set(path.parts) and not path.name.startswith("ran.")
        if not path.name.endswith(".golden.txt")
    )


def _digest(parts: list[tuple[str, bytes]]) -> str:
    digest = hashlib.sha256()
    for name, content in parts:
        for each in (name.encode(), content):
            digest.update(len(each).to_bytes(8, "little") + each)
    return digest.hexdigest()


def _hidden(text: str, folder: Path) -> str:
    return text.replace(str(folder), _FOLDER)


def _shown(text: str, folder: Path) -> str:
    return text.replace(_FOLDER, str(folder))


@contextlib.contextmanager
def _one_at_a_time(path: Path, kept: Path, answers: Path) -> Iterator[None]:
    if not answers.is_dir():
        answers.mkdir(parents=True, exist_ok=True)
        for other in kept.iterdir():
            if time.time() - other.stat().st_mtime > A_DAY:  # sooner, another run may still be reading there
                shutil.rmtree(other, ignore_errors=True)
    with open(path.with_suffix(".lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
