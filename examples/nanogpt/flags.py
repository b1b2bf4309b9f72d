"""What the flags may be: whoever asks for something else is told before anything is trained."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable
from pathlib import Path

FIRST = os.environ.get("RANK", "0") == "0"  # of the ranks: the one that writes


def at_least(least: int) -> Callable[[str], int]:
    """A number of so many or more."""

    def count(text: str) -> int:
        number = int(text)
        if number < least:
            raise argparse.ArgumentTypeError(f"{number} is too few: give {least} or more")
        return number

    return count


def file_to_write(text: str) -> Path:
    """Not opened yet; of a file that is there, nothing is lost."""
    folder = os.path.join(os.path.dirname(text) or ".", "")
    if FIRST and (os.path.isdir(text) or not os.access(text if os.path.exists(text) else folder, os.W_OK)):
        raise argparse.ArgumentTypeError(f"can't write to {text!r}: give a file, in a folder that can be written to")
    return Path(text)


def checkpoint(text: str) -> Path:
    """Each rank puts its own number behind the name."""
    file_to_write(str(Path(text).with_suffix(".rank0.pt")))
    return Path(text)


def folder_to_write(path: Path) -> None:
    """Makes it.  Raises: OSError."""
    if FIRST:
        path.mkdir(parents=True, exist_ok=True)
        if not os.access(path, os.W_OK):
            raise PermissionError(f"{str(path)!r} is read-only")
