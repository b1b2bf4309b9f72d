"""Files get their new text whole or not at all, and the old one stays beside them.

NOTE [how a file is replaced]: the new text is written to a file beside it and forced to the disk; then the old file
gets a second name (train.py.orig), which costs nothing and cannot be half done; then the new file is moved over the
old name. Whenever this is ended, be it by kill -9, the name holds the old text or the new one. Several files: all of
them are written before the first is moved, and if one can't be moved, those before it are moved back.
"""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import signal
import stat
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from gradwright.doctor.mending.combining import MendedFile
from gradwright.doctor.mending.files import NotWritable

try:
    import fcntl
except ImportError:  # no such thing on Windows: there the last look before the move has to do
    fcntl = None  # type: ignore[assignment]  # no such module on Windows


@dataclass(frozen=True, slots=True)
class Written:
    """A file that has its new text. ``kept`` holds the old one; ``other_names`` counts hard links that hold it too."""

    file: MendedFile
    kept: Path
    other_names: int = 0


@dataclass
class _Ready:
    """A file with everything at hand but the last step."""

    file: MendedFile
    before: os.stat_result
    fresh: Path
    kept: Path | None = None
    moved: bool = False


def write(files: Sequence[MendedFile]) -> tuple[list[Written], dict[str, str]]:
    """Write all files; those that can't be, and why, by path. A file that is refused beforehand keeps no other back.

    Raises: NotWritable, if one could not be written on the way (a full disk); KeyboardInterrupt. Then all files are as
    they were.
    """
    refused: dict[str, str] = {}
    ready: list[_Ready] = []
    with _interrupts_held() as stop_if_asked, contextlib.ExitStack() as locks:
        for file in files:
            try:
                before = locks.enter_context(_locked(file))
                _may_be_written(file, before)
            except (NotWritable, OSError) as error:
                refused[file.path] = _said(file, error)
            else:
                ready.append(_Ready(file, before, _beside(file.real, "new")))
        try:
            for item in ready:
                stop_if_asked()
                _write_new(item.fresh, item.file.new, item)
            stop_if_asked()
            _move_all(ready)
        except OSError as error:
            raise NotWritable(f"{_why(error)}; every file is as it was") from None
        finally:
            for item in ready:
                with contextlib.suppress(OSError):
                    item.fresh.unlink(missing_ok=True)
    return [Written(item.file, item.kept, item.before.st_nlink - 1) for item in ready if item.kept], refused


def _said(file: MendedFile, error: Exception) -> str:
    return str(error) if isinstance(error, NotWritable) else f"{file.path} can't be written: {_why(error)}"


def _why(error: Exception) -> str:
    """``No space left on device (/work/train.py)``."""
    if not isinstance(error, OSError) or error.strerror is None:
        return str(error)
    return error.strerror + (f" ({error.filename})" if error.filename else "")


@contextlib.contextmanager
def _locked(file: MendedFile) -> Iterator[os.stat_result]:
    """Nobody else of us writes this file meanwhile. Raises: NotWritable, if somebody does, or has since it was read."""
    with contextlib.ExitStack() as opened:
        before = file.real.stat()
        if fcntl is not None:
            stream = opened.enter_context(open(file.real, "rb"))
            before = os.fstat(stream.fileno())
            try:
                fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise NotWritable(f"{file.path} is just being written by another gradwright fix") from None
            except OSError:
                pass  # a file system without locks: the last look before the move has to do
        if not _is_still(file, before):
            raise NotWritable(f"{file.path} was changed meanwhile: it stays as it is; run gradwright fix again")
        yield before


def _is_still(file: MendedFile, before: os.stat_result) -> bool:
    """Whether the name leads to the same file, and that file to the same text."""
    now = file.real.stat()
    return (now.st_dev, now.st_ino) == (before.st_dev, before.st_ino) and file.real.read_bytes() == file.old


def _may_be_written(file: MendedFile, before: os.stat_result) -> None:
    # The mode too: for root every file is writable, and yet somebody made this one read-only.
    if not before.st_mode & 0o222 or not os.access(file.real, os.W_OK):
        raise NotWritable(f"{file.path} is read-only: it stays as it is; make it writable (chmod u+w) if that is meant")
    folder = file.real.parent
    if not folder.stat().st_mode & 0o222 or not os.access(folder, os.W_OK | os.X_OK):
        raise NotWritable(
            f"the folder {folder} is read-only, and the new text is written beside the old one first: "
            f"{file.path} stays as it is; make the folder writable if that is meant"
        )


def _beside(real: Path, kind: str) -> Path:
    return real.with_name(f".{real.name}.{secrets.token_hex(4)}.{kind}")


def _write_new(path: Path, data: bytes, item: _Ready) -> None:
    """A file of its own, on the disk, with the mode and the owner of the one that it stands for."""
    before = item.before
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with open(descriptor, "wb") as stream:
        stream.write(data)
        stream.flush()
        if hasattr(os, "fchown"):
            mine = os.fstat(descriptor)
            if (mine.st_uid, mine.st_gid) != (before.st_uid, before.st_gid):
                try:
                    os.fchown(descriptor, before.st_uid, before.st_gid)
                except PermissionError as error:
                    why = "it belongs to somebody else, and would be yours then"
                    raise OSError(error.errno, why, str(item.file.real)) from None
            os.fchmod(descriptor, stat.S_IMODE(before.st_mode))
        _copy_attributes(item.file.real, path)
        os.fsync(descriptor)


def _copy_attributes(real: Path, path: Path) -> None:
    """Access lists and labels, where there are any; a file system that does not take them keeps nothing back."""
    if hasattr(os, "listxattr"):
        with contextlib.suppress(OSError):
            for name in os.listxattr(real):
                os.setxattr(path, name, os.getxattr(real, name))


def _move_all(ready: Sequence[_Ready]) -> None:
    """NOTE [how a file is replaced], the last step. Raises: OSError, after what was moved has been moved back."""
    try:
        for item in ready:
            if not _is_still(item.file, item.before):
                raise NotWritable(f"{item.file.path} was changed meanwhile; every file is as it was")
            item.kept = _keep(item)
        for item in ready:
            item.fresh.replace(item.file.real)
            item.moved = True
    except BaseException as error:
        stuck = [str(item.kept) for item in ready if not _taken_back(item)]
        if stuck:
            raise NotWritable(f"{error}; the old text could not be moved back, it is in {', '.join(stuck)}") from None
        raise
    for folder in {item.file.real.parent for item in ready}:
        _sync_folder(folder)


def _keep(item: _Ready) -> Path:
    """A second name for the old file: ``train.py.orig``, ``train.py.orig.1`` ... whichever is free."""
    real = item.file.real
    for number in range(10_000):
        kept = real.with_name(f"{real.name}.orig" + (f".{number}" if number else ""))
        if os.path.lexists(kept):
            continue
        try:
            if item.before.st_nlink == 1:
                os.link(real, kept)
                return kept
        except FileExistsError:
            continue
        except OSError:
            pass  # a file system without hard links, or a file that may not get one: a copy does as well
        _copy(item, kept)
        return kept
    raise OSError(errno.EEXIST, "ten thousand old texts are kept already", str(real))


def _copy(item: _Ready, kept: Path) -> None:
    part = _beside(item.file.real, "old")
    try:
        _write_new(part, item.file.old, item)
        part.replace(kept)
    finally:
        part.unlink(missing_ok=True)


def _taken_back(item: _Ready) -> bool:
    """Whether the old text is under its own name again, and nothing is beside it."""
    if item.kept is None:
        return True
    try:
        if item.moved:
            item.kept.replace(item.file.real)
        else:
            item.kept.unlink(missing_ok=True)
    except OSError:
        return not item.moved
    item.kept = None
    return True


def _sync_folder(folder: Path) -> None:
    """So that the names, too, outlive a power cut."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


@contextlib.contextmanager
def _interrupts_held() -> Iterator[Callable[[], None]]:
    """Ctrl-C and ``kill`` wait for a moment at which nothing is half done; the callable raises it then. After the last
    of these moments it is dropped: what was asked for is done."""
    asked: list[int] = []

    def stop_if_asked() -> None:
        if asked:
            raise KeyboardInterrupt

    if threading.current_thread() is not threading.main_thread():
        yield stop_if_asked  # Ctrl-C reaches the main thread only
        return
    held = (signal.SIGINT, signal.SIGTERM)
    before = [signal.signal(one, lambda number, frame: asked.append(number)) for one in held]
    try:
        yield stop_if_asked
    finally:
        for one, handler in zip(held, before, strict=True):
            signal.signal(one, handler)
