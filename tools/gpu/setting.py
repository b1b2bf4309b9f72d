"""Where and how `make gpu` runs: on a GPU, or dry on the CPU; until when; where results go."""

from __future__ import annotations

import os
import tempfile
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

from gpu.children import Limits
from gpu.results import ResultFolder

ROOT = Path(__file__).resolve().parents[2]
DRY = "GRADWRIGHT_GPU_DRY"
#: All steps, and what lies between them.
SECONDS = 480.0


@dataclass(frozen=True)
class Setting:
    """One run."""

    #: "cuda", or "cpu" for a dry run.
    device: str
    results: ResultFolder
    #: When it began, by ``time.monotonic``.
    started: float
    #: A folder for files that nobody wants to keep.
    work: Path
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def is_dry(self) -> bool:
        return self.device == "cpu"

    @property
    def site(self) -> Path:
        """Where the wheels are that travelled."""
        return self.work / "site"

    def environment(self, **more: str) -> dict[str, str]:
        """Of a child process: everything of this repository can be imported, from its source."""
        folders = [str(self.site), *(str(ROOT / name) for name in ("src", "", "tools", "benchmarks"))]
        before = os.environ.get("PYTHONPATH", "")
        path = os.pathsep.join([*folders, *([before] if before else [])])
        own = {"PYTHONPATH": path, "PYTHONUNBUFFERED": "1", DRY: "1" if self.is_dry else ""}
        own["PYTHONDONTWRITEBYTECODE"] = ""  # each process would compile all of torch that it imports, in ten seconds
        return {**os.environ, **own, **({"OMP_NUM_THREADS": "1"} if self.is_dry else {}), **more}

    @property
    def until(self) -> float:
        """When all of it has to be over, by ``time.monotonic``."""
        return self.started + SECONDS * self.patience

    @property
    def patience(self) -> float:
        """What limits of time are multiplied by: a dry run may be on a slow and busy machine, and is not lent."""
        return 6.0 if self.is_dry else 1.0

    def limits(self, seconds: float, *, start: float, each: float) -> Limits:
        """Of a step that may take ``seconds``, and no more than is left."""
        return Limits(min(time.monotonic() + seconds, self.until), start * self.patience, each * self.patience)

    def make_folder(self) -> Path:
        """A new one below ``work``."""
        return Path(tempfile.mkdtemp(dir=self.work))

    def log(self, printed: bytes) -> None:
        """Append to what comes back as the log."""
        with self._lock, self.results.log.open("ab") as stream:
            stream.write(printed)


def choose_device() -> str:
    """Of a dry run the CPU: where the variable GRADWRIGHT_GPU_DRY is 1."""
    return "cpu" if os.environ.get(DRY) == "1" else "cuda"
