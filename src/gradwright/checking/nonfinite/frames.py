"""Whose line called an operation: the innermost frame of the user's, kept as code and instruction until it is told."""

from __future__ import annotations

import functools
import itertools
import linecache
import os
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, FrameType
from typing import NamedTuple

import torch

from gradwright.ground.installed import STANDARD, is_installed

_TORCH = str(Path(torch.__file__).resolve().parent) + os.sep  # as `owner` resolves paths
_OPTIM = f"{_TORCH}optim{os.sep}"
_SCALER = f"{_TORCH}amp{os.sep}grad_scaler.py"
_OURS = str(Path(__file__).resolve().parents[2]) + os.sep
_NOBODYS = ("<frozen", "<eval_with_key", "<__", "<@")
_MOST_FRAMES = 80


class Label(NamedTuple):
    """An operation and the instruction of the user's that called it. No frame is held: frames hold tensors."""

    operation: str
    code: CodeType
    instruction: int


@dataclass(frozen=True, slots=True)
class Place:
    """A stretch of source. Lines and columns count from 1; ``end_line == 0``: only the line is known."""

    path: str
    line: int
    column: int = 1
    end_line: int = 0
    end_column: int = 0
    function: str = ""
    text: str = ""

    def __str__(self) -> str:
        file = Path(self.path).name
        return f"{file}:{self.line}:{self.column}" if self.end_line else f"{file}:{self.line}"


@functools.cache
def owner(path: str) -> str:
    """``user``, ``library`` (installed, but not torch), ``optim``, ``scaler`` or ``other``, by a code object's file."""
    if path.startswith("<"):
        return "other" if path.startswith(_NOBODYS) else "user"
    path = os.path.realpath(path)
    if path.startswith(_TORCH):
        return "optim" if path.startswith(_OPTIM) else "scaler" if path == _SCALER else "other"
    if path.startswith(_OURS):
        return "other"
    if is_installed(path):
        return "library"
    return "other" if path.startswith(STANDARD) else "user"


def user_frame(frame: FrameType | None) -> FrameType | None:
    """The innermost frame of the user's from ``frame`` outwards; a library's if there is none, else ``None``."""
    library = None
    for _ in range(_MOST_FRAMES):
        if frame is None:
            break
        whose = owner(frame.f_code.co_filename)
        if whose == "user":
            return frame
        if library is None and whose == "library":
            library = frame
        frame = frame.f_back
    return library


def frames_of_ours(frame: FrameType | None) -> list[FrameType]:
    """The frames of this library's from ``frame`` outwards to the user's, if it begins in one; torch's between."""
    found: list[FrameType] = []
    for _ in range(_MOST_FRAMES):
        if frame is None or owner(frame.f_code.co_filename) in ("user", "library"):
            break
        if frame.f_code.co_filename.startswith(_OURS):
            found.append(frame)
        elif not found:
            break
        frame = frame.f_back
    return found


def place_of(label: Label) -> Place:
    """Where a label's instruction stands, to the column, with its text."""
    code, path = label.code, label.code.co_filename
    positions = next(itertools.islice(code.co_positions(), label.instruction // 2, None), (None,) * 4)
    first, last, column, end_column = positions
    function = code.co_qualname.replace("<locals>.", "")
    if first is None or last is None or column is None or end_column is None:
        return Place(path, first or code.co_firstlineno, function=function)
    start, end = _characters(path, first, column), _characters(path, last, end_column)
    line = linecache.getline(path, first).rstrip("\n")
    text = line[start:end] if first == last else f"{line[start:]} ..."
    return Place(path, first, start + 1, last, end + 1, function, text)


def _characters(path: str, line: int, utf8_offset: int) -> int:
    """Python counts columns in UTF-8 bytes; people count characters."""
    text = linecache.getline(path, line)
    return utf8_offset if text.isascii() else len(text.encode()[:utf8_offset].decode(errors="replace"))
