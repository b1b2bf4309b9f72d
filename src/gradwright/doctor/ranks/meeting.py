"""Where the ranks of one run on one machine leave word for one another: small files in a private folder.

NOTE [alive]: a rank holds a lock on its own file for as long as its process lives. The kernel gives the lock back
whatever ends the process, so a rank that died is told from one that is at work without a signal, a port or a timeout.
What a run that was killed has left behind is held by nobody and older than this run: it is not read.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import stat
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from gradwright.doctor.ranks.identity import Rank
from gradwright.errors import GradwrightError

if sys.platform != "win32":
    import fcntl

_BEFORE_US = 60.0  # ranks of one run begin within seconds of one another


@dataclass(frozen=True)
class HandedOver:
    """A rank's word that its session is written. ``failure``: that its doctor failed, "" if it did not."""

    session: str
    failure: str = ""


class Meeting:
    """The folder, for one of the ranks. Leaving it gives the lock back; the leader then takes the folder away."""

    def __init__(self, rank: Rank) -> None:
        """Raises ``GradwrightError`` where there can be no such folder of this user's alone."""
        self.rank = rank
        self.folder = folder_of(rank)
        self.began = time.time()
        self._lock = self._arrive()

    def __enter__(self) -> Meeting:
        return self

    def __exit__(self, *_: object) -> None:
        self._lock.close()
        if self.rank.leads:
            shutil.rmtree(self.folder, ignore_errors=True)

    def _arrive(self) -> IO[str]:
        for old in (f"over.{self.rank.rank}", f"done.{self.rank.rank}", *(("stop",) if self.rank.leads else ())):
            (self.folder / old).unlink(missing_ok=True)
        stream = open(self.folder / f"alive.{self.rank.rank}", "a+", encoding="utf-8")  # noqa: SIM115 - held for life
        if sys.platform != "win32":
            fcntl.flock(stream, fcntl.LOCK_EX)  # a peer that looks holds it for an instant
        stream.truncate(0)
        stream.write(json.dumps(self.began))
        stream.flush()
        return stream

    # --- to the others -----------------------------------------------------------------------------------------------

    def script_is_over(self) -> None:
        """The script of this rank has ended; what is left is the doctor's own work."""
        self._write(f"over.{self.rank.rank}", {})

    def hand_over(self, word: HandedOver) -> None:
        self._write(f"done.{self.rank.rank}", {"session": word.session, "failure": word.failure})

    def _write(self, name: str, data: dict[str, Any]) -> None:
        with contextlib.suppress(OSError):  # the leader has given this rank up, and the folder with it
            write_whole(self.folder / name, {"began": self.began, **data})

    # --- of the others -----------------------------------------------------------------------------------------------

    def is_here(self, rank: int) -> bool:
        """Whether that rank came to this meeting, be it alive or not."""
        return self._began(rank) is not None

    def is_alive(self, rank: int) -> bool:
        """See NOTE [alive]. Where there are no such locks (Windows), whoever came is taken for alive."""
        if not self.is_here(rank):
            return False
        if sys.platform == "win32":
            return True
        try:
            with open(self.folder / f"alive.{rank}", "rb") as stream:
                fcntl.flock(stream, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        except OSError:
            return False
        return False

    def script_of_is_over(self, rank: int) -> bool:
        return self._read(f"over.{rank}") is not None or self.handed_over(rank) is not None

    def handed_over(self, rank: int) -> HandedOver | None:
        data = self._read(f"done.{rank}")
        return None if data is None else HandedOver(str(data.get("session", "")), str(data.get("failure", "")))

    def _began(self, rank: int) -> float | None:
        began = read_whole(self.folder / f"alive.{rank}")
        return began if isinstance(began, float) and began >= self.began - _BEFORE_US else None

    def _read(self, name: str) -> dict[str, Any] | None:
        data = read_whole(self.folder / name)
        if not isinstance(data, dict) or not isinstance(data.get("began"), float):
            return None
        return data if data["began"] >= self.began - _BEFORE_US else None


def folder_of(rank: Rank) -> Path:
    """Made if it is not there. Raises ``GradwrightError`` if it is not this user's alone."""
    user = os.getuid() if sys.platform != "win32" else 0
    folder = Path(tempfile.gettempdir()) / f"gradwright-ranks-{user}-{rank.run}"
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        found = folder.lstat()
    except OSError as error:
        raise GradwrightError(f"the ranks of this run can't meet in {folder}: {error}; set TMPDIR") from None
    alone = sys.platform == "win32" or (found.st_uid == user and not found.st_mode & 0o077)
    if not stat.S_ISDIR(found.st_mode) or not alone:
        raise GradwrightError(f"the ranks of this run can't meet in {folder}: it is not this user's alone; set TMPDIR")
    return folder


def write_whole(path: Path, data: Any) -> None:
    """Beside its place, then moved there: who reads it reads all of it or nothing. Raises ``OSError``."""
    part = path.with_name(f"{path.name}.{os.getpid()}")
    part.write_text(json.dumps(data), encoding="utf-8")
    part.replace(path)


def read_whole(path: Path) -> Any:
    """``None`` where there is no such file, or no whole one."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
