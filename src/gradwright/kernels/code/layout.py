"""What a kernel walks through, and what each of its parameters is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from gradwright.kernels.formula.program import Program

FIRST_WORDS = ("next block", "blocks done", "blocks", "rows", "columns", "rows a block", "columns a block", "segments")

Step = Literal["still", "one", "any"]  # along the columns: stride 0, 1, another
Way = Literal["written", "total", "rows", "columns"]
BYTES = {"f64": 8, "i64": 8, "f32": 4, "i32": 4, "f16": 2, "bf16": 2, "i16": 2, "i8": 1, "u8": 1, "bool": 1}


@dataclass(frozen=True)
class Read:
    """How an operand is walked. ``kind``: of its elements, or "real" for a Python number among the parameters."""

    kind: str
    step: Step = "still"
    moves: bool = False  # from row to row


@dataclass(frozen=True)
class Written:
    """What becomes of an output: stored for every element, or summed over all of them, along each row, or along each
    column of a block of rows (the sums in float64)."""

    way: Way
    kind: str = "f64"
    step: Step = "one"
    moves: bool = False


@dataclass(frozen=True)
class Loops:
    """All that the text of a kernel depends on."""

    program: Program
    precision: Literal["f32", "f64"]
    reads: tuple[Read, ...]
    writes: tuple[Written, ...]
    row_axes: int

    def words(self) -> tuple[str, ...]:
        """What each of the kernel's parameters is: ``x0 address``, ``x0 step``, ``x0 row step 1``, ``size 1``."""
        words = list(FIRST_WORDS)
        words += [f"size {axis}" for axis in range(self.row_axes)]
        walkers = [*zip(named("x", self.reads), self.reads, strict=True)]
        for name, read in walkers:
            if read.kind == "real":
                words.append(f"{name} number")
            else:
                words += _words_of(name, read.step, read.moves, self.row_axes)
        for name, write in zip(named("r", self.writes), self.writes, strict=True):
            moves = write.moves and write.way == "written"
            words += _words_of(name, write.step if write.way == "written" else "one", moves, self.row_axes)
        return tuple(words)


def named(letter: str, walkers: Sequence[object]) -> list[str]:
    return [f"{letter}{k}" for k in range(len(walkers))]


def _words_of(name: str, step: Step, moves: bool, row_axes: int) -> list[str]:
    found = [f"{name} address"]
    if step == "any":
        found.append(f"{name} step")
    if moves:
        found += [f"{name} row step {axis}" for axis in range(row_axes)]
    return found
