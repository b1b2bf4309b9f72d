"""A session file, read. Whatever lies under that name, the answer is a report or a ``SessionError``: a file that was
cut off, another program's, somebody's that means harm. Memory stays bounded: by the size of the file, then by the
number of values in it."""

from __future__ import annotations

import os
import re
import stat
from pathlib import Path

from gradwright.doctor.session.codec import from_json
from gradwright.doctor.session.model import Report
from gradwright.errors import SessionError

MOST_BYTES = 64 << 20
MOST_VALUES = 3_000_000  # some 200 bytes each at the worst; a session of 64 MiB as we write it has half as many

_STRING = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)', re.DOTALL)
_KINDS = {
    stat.S_ISDIR: "a directory",
    stat.S_ISFIFO: "a pipe",
    stat.S_ISSOCK: "a socket",
    stat.S_ISCHR: "a device",
    stat.S_ISBLK: "a device",
}
_UTF16 = (b"\xff\xfe", b"\xfe\xff")


def read_session(path: Path) -> Report:
    """The session in the file ``path``.

    Raises: SessionError, which says what is wrong with it, where, and what to do.
    Cost: 64 MiB of file at most, and a few hundred bytes for each of three million values.
    """
    try:
        return from_json(_text(_bytes(path)))
    except SessionError as error:
        raise _unreadable(path, str(error)) from None
    except OSError as error:
        raise _unreadable(path, error.strerror or str(error)) from None
    except MemoryError:
        raise _unreadable(path, "it takes more memory than this process may have") from None


def _unreadable(path: Path, why: str) -> SessionError:
    return SessionError(f"the session {path} can't be read: {why}; gradwright diagnose writes a new one")


def _bytes(path: Path) -> bytes:
    """Raises: SessionError, before anything is read of what is no plain file or too large; OSError."""
    try:
        before = path.stat()
    except FileNotFoundError:
        raise SessionError("there is no such file") from None
    except ValueError as error:  # a NUL in the name
        raise SessionError(str(error)) from None
    _may_be_opened(before)
    # Somebody may have put a pipe there meanwhile: opening one waits for a writer, unless told not to.
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    with open(descriptor, "rb") as stream:
        _may_be_opened(os.fstat(descriptor))
        data = stream.read(MOST_BYTES + 1)
    _may_be_so_large(len(data))  # it may have grown
    return data


def _may_be_opened(found: os.stat_result) -> None:
    if not stat.S_ISREG(found.st_mode):
        kind = next((name for is_such, name in _KINDS.items() if is_such(found.st_mode)), "something else")
        raise SessionError(f"it is no plain file but {kind}")
    _may_be_so_large(found.st_size)


def _may_be_so_large(size: int) -> None:
    if size > MOST_BYTES:
        raise SessionError(f"it has more than {MOST_BYTES >> 20} MiB ({size:,} bytes), and no session is so large")


def _text(data: bytes) -> str:
    if data.startswith(_UTF16):
        raise SessionError("it is UTF-16, as PowerShell's > writes it: use --output or --session there")
    if _values(data) > MOST_VALUES:
        raise SessionError(f"it has more than {MOST_VALUES:,} values in it, and no session has so many")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        byte = data[error.start]
        raise SessionError(
            f"it is no text in UTF-8, so no session: byte {byte:#04x} at offset {error.start:,}"
        ) from None


def _values(data: bytes) -> int:
    """How many values there are at most; text is looked through only where that matters."""
    many = _marks(data)
    if many <= MOST_VALUES or data.count(b'"') > 4 * MOST_VALUES:
        return many
    return _marks(_STRING.sub(b'""', data))


def _marks(data: bytes) -> int:
    return sum(data.count(mark) for mark in (b",", b"[", b"{"))
