"""Object code kept on disk, for processes to come.

NOTE [The cache is code]: what is read here is run. So a directory is used only if it belongs to this user (or to root)
and nobody else may write into it; the same holds for each file, and its checksum must be right. Everything else is as
if nothing had been found: the kernel is compiled again. Nothing in here ever raises for what the disk does.

The directory is ``$GRADWRIGHT_CACHE_DIR``, else ``$XDG_CACHE_HOME/gradwright/kernels``, else
``~/.cache/gradwright/kernels``; with ``GRADWRIGHT_CACHE_DIR=""`` nothing is kept. It may be deleted at any time.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import stat
import struct
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

MOST_BYTES: Final = 256 << 20
MOST_FILES: Final = 4096
_DAY: Final = 86_400.0

_MAGIC: Final = b"gradwright kernel 1\n"
_HEADER: Final = struct.Struct("<20s32s32sQ")  # magic, key, checksum of the code, its length in bytes

_pruned: set[Path] = set()


class NoDirectory(Exception):
    """Why object code can't be kept."""


def place() -> Path:
    """The directory that the environment names; it need not exist. Raises: NoDirectory."""
    if not {os.open, os.stat, os.unlink} <= os.supports_dir_fd:
        raise NoDirectory("this system can't hold a directory open")
    chosen = os.environ.get("GRADWRIGHT_CACHE_DIR")
    if chosen == "":
        raise NoDirectory("GRADWRIGHT_CACHE_DIR is empty")
    try:
        if chosen:
            return Path(chosen).absolute()
        shared = Path(os.environ.get("XDG_CACHE_HOME", ""))
        if shared.is_absolute():  # a relative one is to be ignored, says the specification
            return shared / "gradwright" / "kernels"
        home = Path.home()
        if not home.is_dir():
            raise NoDirectory(f"there is no home directory {home}")
    except (OSError, RuntimeError) as error:
        raise NoDirectory(str(error)) from None
    return home / ".cache" / "gradwright" / "kernels"


def describe() -> str:
    """In words: where object code is kept, or why it isn't."""
    try:
        with _opened():
            return f"kernels are kept in {place()}"
    except NoDirectory as reason:
        return f"kernels are not kept on disk: {reason}"


def found(key: str) -> bytes | None:
    """The object code kept under a key (64 hexadecimal digits); ``None`` where it isn't there, or isn't as it was."""
    with suppress(NoDirectory, OSError), _opened() as directory:
        file = os.open(f"{key}.o", os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK, dir_fd=directory)
        with open(file, "rb") as stream:
            status = os.fstat(file)
            if not stat.S_ISREG(status.st_mode) or _distrust(status) or status.st_size > MOST_BYTES:
                return None
            text = stream.read()
            if time.time() - status.st_mtime > _DAY:
                with suppress(OSError):
                    os.utime(file)  # used: the last to be pruned
        return _unpacked(key, text)
    return None


def keep(key: str, code: bytes, source: str) -> None:
    """Keep object code, and its source beside it for people. Where it can't be kept, nothing happens."""
    packed = _HEADER.pack(_MAGIC, bytes.fromhex(key), hashlib.sha256(code).digest(), len(code)) + code
    with suppress(NoDirectory, OSError), _opened() as directory:
        _put(directory, f"{key}.py", source.encode())
        _put(directory, f"{key}.o", packed)
        if (where := place()) not in _pruned:
            _pruned.add(where)
            _prune(directory)


def _unpacked(key: str, text: bytes) -> bytes | None:
    if len(text) < _HEADER.size:
        return None
    magic, kept_key, checksum, length = _HEADER.unpack_from(text)
    code = text[_HEADER.size :]
    is_whole = len(code) == length and hashlib.sha256(code).digest() == checksum
    return code if magic == _MAGIC and kept_key.hex() == key and is_whole else None


@contextmanager
def _opened() -> Iterator[int]:
    """The directory, made if need be and held open, so that what was checked is what is used."""
    where = place()
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
    try:
        try:
            directory = os.open(where, flags)
        except FileNotFoundError:
            where.mkdir(mode=0o700, parents=True, exist_ok=True)
            directory = os.open(where, flags)
    except OSError as error:
        raise NoDirectory(f"{where}: {error.strerror}") from None
    try:
        if why := _distrust(os.fstat(directory)):
            raise NoDirectory(f"{where} {why}")
        yield directory
    finally:
        os.close(directory)


def _distrust(status: os.stat_result) -> str:
    """Why not; "" if it is. See NOTE [The cache is code]."""
    if status.st_uid not in (os.geteuid(), 0):
        return f"belongs to another user (number {status.st_uid})"
    if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        return f"may be written by others (mode {stat.S_IMODE(status.st_mode):o}; chmod go-w mends it)"
    return ""


def _put(directory: int, name: str, content: bytes) -> None:
    """Write a file whole or not at all. It is not synced: a file that a crash cut off fails its checksum."""
    temporary = f".{name}.{secrets.token_hex(8)}.tmp"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    file = os.open(temporary, flags, 0o600, dir_fd=directory)
    try:
        with open(file, "wb") as stream:
            stream.write(content)
        os.replace(temporary, name, src_dir_fd=directory, dst_dir_fd=directory)
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary, dir_fd=directory)
        raise


def _prune(directory: int) -> None:
    """Above the bounds, remove what was not used for longest, down to three quarters of them.

    Several processes may do so at once: each removes what it still finds.
    """
    files = []
    for name in os.listdir(directory):
        with suppress(OSError):
            status = os.stat(name, dir_fd=directory, follow_symlinks=False)
            if name.endswith(".tmp") and time.time() - status.st_mtime > _DAY:  # of a process that was killed
                os.unlink(name, dir_fd=directory)
            elif name.endswith((".o", ".py")):
                files.append((status.st_mtime, status.st_size, name))
    size, count = sum(each[1] for each in files), len(files)
    if size <= MOST_BYTES and count <= MOST_FILES:
        return
    for _, bytes_of_it, name in sorted(files):
        if size <= MOST_BYTES * 3 // 4 and count <= MOST_FILES * 3 // 4:
            return
        with suppress(OSError):
            os.unlink(name, dir_fd=directory)
        size, count = size - bytes_of_it, count - 1
