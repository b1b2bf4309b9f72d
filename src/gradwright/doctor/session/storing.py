"""Files that get their new content whole or not at all."""

from __future__ import annotations

import contextlib
import os
import stat
import tempfile
from pathlib import Path


def store(data: bytes, path: Path) -> None:
    """Write beside the file's place, then move it over: a full disk or a kill leaves the old file whole.

    Folders are made where there are none. What is no plain file (a pipe, ``/dev/stdout``) is written to as it stands.
    Raises: OSError; then nothing is left behind.
    """
    real = Path(os.path.realpath(path))  # a link goes on leading where it led
    with contextlib.suppress(FileNotFoundError):
        if not stat.S_ISREG(real.stat().st_mode):
            real.write_bytes(data)
            return
    real.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=real.parent, prefix=f".{real.name}.", suffix=".part")
    part = Path(name)
    try:
        with open(handle, "wb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        part.chmod(_mode(real))
        part.replace(real)
    except BaseException:
        part.unlink(missing_ok=True)
        raise


def _mode(path: Path) -> int:
    """Of the file that is there, or as a new one gets it."""
    with contextlib.suppress(OSError):
        return stat.S_IMODE(path.stat().st_mode)
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask
