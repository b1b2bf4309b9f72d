"""Before anything runs: no file that a command writes may be one that it reads, or that somebody else made."""

from __future__ import annotations

import os
from pathlib import Path

from gradwright.errors import UsageError

# How a session of ours begins, blanks left out: the journal's environment, and in it who wrote it.
_BEGINNING = b'{"environment":{"gradwright":'
_LOOKED_AT = 4096


def stays_apart(named: dict[str, Path | None]) -> None:
    """``named``: what a command reads and writes, by what each is called; ``None`` is standard output.

    Raises: UsageError, if two are one file, by whatever names. Devices (``/dev/null``) may be named twice.
    """
    files = [(name, path) for name, path in named.items() if path is not None]
    for number, (name, path) in enumerate(files):
        for other, earlier in files[:number]:
            if _same(path, earlier):
                raise UsageError(f"{name} would overwrite {other}: both are {path}; nothing was run, nothing written")


def _same(one: Path, other: Path) -> bool:
    try:
        if one.exists() and other.exists():
            return one.samefile(other) and one.is_file()
        return os.path.realpath(one) == os.path.realpath(other)
    except (OSError, ValueError):  # what can't be looked at can't be written either, which is told there
        return False


def may_become_session(path: Path) -> None:
    """Raises: UsageError, if a file lies there that is no session, nor one that was cut off."""
    try:
        if not path.is_file() or path.stat().st_size == 0:
            return
        with open(path, "rb") as stream:
            head = b"".join(stream.read(_LOOKED_AT).split())
    except (OSError, ValueError):
        return
    sorted_by_name = head.startswith(b'{"environment":{') and b'"gradwright":' in head
    if not (sorted_by_name or head.startswith(_BEGINNING) or _BEGINNING.startswith(head)):
        raise UsageError(
            f"the session can't be kept in {path}: that file is there, and is no session; "
            "name another, or take it away (nothing was run)"
        )


def has_a_folder(path: Path) -> None:
    """Raises: UsageError, if the folder that the report is to lie in is not there."""
    if not path.parent.is_dir():
        raise UsageError(f"the report can't be written to {path}: there is no folder {path.parent}")
