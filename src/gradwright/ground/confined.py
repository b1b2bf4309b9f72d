"""A process that may look at files but not change them, nor reach anybody: for code that is run a second time."""

from __future__ import annotations

import contextlib
import functools
import os
import sys
import tempfile
from typing import Any

_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_REFUSED = {
    "os.remove", "os.rename", "os.rmdir", "os.mkdir", "os.link", "os.symlink", "os.truncate", "os.chmod", "os.utime",
    "os.system", "os.exec", "os.posix_spawn", "subprocess.Popen", "socket.connect", "socket.sendto",
    "shutil.rmtree", "shutil.copyfile", "shutil.move",
}  # fmt: skip


def confine() -> None:
    """From here on, this process changes no file, starts no program and connects to nobody: ``PermissionError``.

    For good: an audit hook can't be taken off. Pipes that are open stay open, and so does ``/dev/null``. A file that is
    open already takes no more data (a limit of the operating system, so that C code is bound by it too).
    """
    import resource

    with contextlib.suppress(FileNotFoundError):
        tempfile.gettempdir()  # found by writing there, the first time that anybody asks: torch does as it is imported
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))
    serialization = sys.modules.get("torch.serialization")
    if serialization is not None:  # its writer is C++, which no audit hook hears of
        for name in ("_open_zipfile_writer", "_open_file_like"):
            setattr(serialization, name, _without_paths(getattr(serialization, name)))
    sys.addaudithook(_refuse)


def _refuse(event: str, args: tuple[Any, ...]) -> None:
    if event == "open":
        path, _, flags = args
        is_path = isinstance(path, (str, bytes, os.PathLike))  # else a descriptor, which is open already
        if is_path and isinstance(flags, int) and flags & _WRITES and path != os.devnull:
            raise PermissionError(f"it would write {path}, which a repetition must not")
    elif event in _REFUSED:
        raise PermissionError(f"it would call {event}, which a repetition must not")


def _without_paths(original: Any) -> Any:
    @functools.wraps(original)
    def checked(target: Any, *mode: str) -> Any:
        if isinstance(target, (str, os.PathLike)) and not "".join(mode).startswith("r"):
            raise PermissionError(f"it would write {os.fspath(target)}, which a repetition must not")
        return original(target, *mode)

    return checked
