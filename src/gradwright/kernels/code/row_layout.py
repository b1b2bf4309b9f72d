"""What the kernel of a row program walks through, and what each of its parameters is.

Elements lie along three axes: batches, classes, positions; a row is the classes of one batch and position.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from gradwright.kernels.formula.stages import Axes, RowProgram, Way

FIRST_WORDS = (
    *("next block", "blocks done", "blocks", "classes", "positions", "positions a block", "segments"),
    "positions a run",
)

# "along": a row after the other, its classes in the inner loop; "across": a run of rows together, in the inner loop the
# same class of each.
Walk = Literal["along", "across"]

STEPS: dict[Axes | Way, tuple[str, ...]] = {
    "element": ("batch", "class", "position"),
    "row": ("batch", "position"),
    "class": ("class",),
    "number": (),
    "total": (),
}


@dataclass(frozen=True)
class RowRead:
    """An input. ``kind``: of its elements, or "real" for a Python number. ``is_dense``: its elements lie side by side
    along the inner loop."""

    axes: Axes
    kind: str
    is_dense: bool = True


@dataclass(frozen=True)
class RowWritten:
    """A result. The sums over rows are float64, one for each block."""

    way: Way
    kind: str = "f64"
    is_dense: bool = True


@dataclass(frozen=True)
class RowLoops:
    """All that the text of a kernel depends on. ``is_narrow``: the elements of a run fit into a scratch buffer
    (see NOTE [Packing] in ``row_loops``)."""

    program: RowProgram
    precision: Literal["f32", "f64"]
    walk: Walk
    reads: tuple[RowRead, ...]
    writes: tuple[RowWritten, ...]
    is_narrow: bool = False

    def words(self) -> tuple[str, ...]:
        """What each of the kernel's parameters is: ``x0 address``, ``x0 class step``, ``x2 number``."""
        words = list(FIRST_WORDS)
        for name, read in zip(named("x", self.reads), self.reads, strict=True):
            if read.kind == "real":
                words.append(f"{name} number")
            else:
                words += [f"{name} address", *[f"{name} {axis} step" for axis in STEPS[read.axes]]]
        for name, write in zip(named("r", self.writes), self.writes, strict=True):
            steps = () if write.way == "class" else STEPS[write.way]
            words += [f"{name} address", *[f"{name} {axis} step" for axis in steps]]
        return tuple(words)


def named(letter: str, walkers: Sequence[object]) -> list[str]:
    return [f"{letter}{k}" for k in range(len(walkers))]
