"""A row program as a Triton kernel, on an accelerator.

One program instance takes a tile: some rows, and of each all classes, where they fit in one (``is_long``: they do not).
In the first case every element is read once, and stays in registers until the last result is written; in the other each
pass over the row reads it again, a tile at a time, from the second cache. What is summed over rows is summed within an
instance, and the instances' sums are written side by side: added up afterwards, never atomically, they make the same
result each time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Final

from gradwright.kernels.code.row_layout import STEPS
from gradwright.kernels.code.triton_code import Step
from gradwright.kernels.code.triton_operations import TYPES, Precision, code
from gradwright.kernels.formula.expression import Expression, in_order
from gradwright.kernels.formula.row_passes import Passes, passes_of
from gradwright.kernels.formula.stages import CLASS, Axes, RowProgram, Way, names_in

_HEAD: Final = """\
import triton
import triton.language as tl
from triton.language.extra import libdevice


@triton.jit
"""
_INDEX: Final = {"batch": "batch", "position": "position", "class": "at_class"}
_MASKS: Final = {"row": "is_row", "class": "is_class", "element": "inside"}


@dataclass(frozen=True)
class RowWalk:
    """An operand or a result. ``kind``: of its elements, or "real" for a Python number; ``steps``: along each of the
    axes of ``STEPS``, those that it has."""

    axes: Axes | Way
    kind: str
    steps: tuple[Step, ...] = ()

    def named_steps(self) -> list[tuple[str, Step]]:
        return list(zip(STEPS[self.axes], self.steps, strict=False))


@dataclass(frozen=True)
class RowKernel:
    """All that the text of a kernel depends on. ``is_wide``: places need 64 bits."""

    program: RowProgram
    precision: Precision
    reads: tuple[RowWalk, ...]
    writes: tuple[RowWalk, ...]
    is_long: bool = False
    is_wide: bool = False

    @property
    def used(self) -> tuple[int, ...]:
        """The operands that a formula names; the others are not handed over."""
        formulas = [stage.formula for stage in self.program.stages] + [one.formula for one in self.program.results]
        named = set[str]().union(*map(names_in, formulas)) | {stage.place for stage in self.program.stages}
        return tuple(place for place, (name, _) in enumerate(self.program.inputs) if name in named)

    def steps(self) -> list[tuple[str, int, str]]:
        """The steps that are parameters: ``("x0_class", 0, "class")``; the number is the operand's, or counts on from
        them for results."""
        walks = [(f"x{place}", place, self.reads[place]) for place in self.used]
        walks += [(f"r{place}", len(self.reads) + place, walk) for place, walk in enumerate(self.writes)]
        return [
            (f"{name}_{axis}", place, axis)
            for name, place, walk in walks
            for axis, step in walk.named_steps()
            if step == "any"
        ]

    def parameters(self) -> tuple[str, ...]:
        """What it is called with, in this order; then the constants ``ROWS`` and ``WIDTH``."""
        return (
            *[f"x{place}" for place in self.used],
            *[f"r{place}" for place in range(len(self.writes))],
            *[name for name, _, _ in self.steps()],
            *("classes", "positions", "rows"),
        )

    def source(self, name: str = "kernel") -> str:
        """A module's text that defines the kernel."""
        return _Writer(self).text(name)


class _Writer:
    def __init__(self, kernel: RowKernel) -> None:
        self.kernel, self.program = kernel, kernel.program
        self.real = TYPES[kernel.precision]
        self.passes: Passes = passes_of(kernel.program, can_hold=False)
        self.made = (f"t{number}" for number in count())
        self.places = {name: place for place, (name, _) in enumerate(self.program.inputs)}
        self.values: dict[str, str] = {CLASS: "k"}
        self.known: dict[bytes, str] = {}

    def text(self, name: str) -> str:
        kernel = self.kernel
        numbers = {f"x{place}" for place in kernel.used if kernel.reads[place].kind == "real"}
        # Annotated, a Python float is handed over as what is computed with.
        typed = [f'{word}: "fp{kernel.precision[1:]}"' if word in numbers else word for word in kernel.parameters()]
        lines = [*self._rows(), *(self._passes_over_tiles() if kernel.is_long else self._one_tile())]
        body = "".join(f"    {line}\n" for line in lines)
        return f"{_HEAD}def {name}({', '.join([*typed, 'ROWS: tl.constexpr', 'WIDTH: tl.constexpr'])}):\n{body}"

    # --- where, and what lies there ----------------------------------------------------------------------------------

    def _rows(self) -> list[str]:
        block = "tl.program_id(0).to(tl.int64)" if self.kernel.is_wide else "tl.program_id(0)"
        return [
            f"row = ({block} * ROWS + tl.arange(0, ROWS))[:, None]",
            "is_row = row < rows",
            "batch = row // positions",
            "position = row % positions",
            *self._loads(("row", "number")),
        ]

    def _columns(self, start: str) -> list[str]:
        return [
            f"at_class = ({start}tl.arange(0, WIDTH))[None, :]",
            "is_class = at_class < classes",
            "inside = is_row & is_class",
            f"k = at_class.to({self.real})",
        ]

    def _address(self, name: str, walk: RowWalk) -> str:
        moved = [(axis, step) for axis, step in walk.named_steps() if step != "still"]
        parts = [_INDEX[axis] if step == "one" else f"{_INDEX[axis]} * {name}_{axis}" for axis, step in moved]
        # Addresses have to have the mask's shape by themselves.
        axes = {axis for axis, _ in moved}
        is_whole = "class" in axes or walk.axes == "row"
        if not is_whole or (walk.axes != "class" and not axes & {"batch", "position"}):
            parts.append(f"tl.zeros_like({_MASKS[walk.axes]}.to(tl.int32))")
        return " + ".join([name, *parts])

    def _loads(self, axes: Sequence[str]) -> list[str]:
        lines = []
        for place in self.kernel.used:
            walk, name = self.kernel.reads[place], f"x{place}"
            if walk.axes not in axes:
                continue
            if walk.kind == "real":
                loaded = f"tl.full((), {name}, {self.real})"
            else:
                loaded = f"tl.load({self._address(name, walk)}, mask={_MASKS[walk.axes]}, other=0).to({self.real})"
            lines.append(f"v{place} = {loaded}")
            self.values[self.program.inputs[place][0]] = f"v{place}"
        return lines

    # --- formulas ----------------------------------------------------------------------------------------------------

    def _computed(self, formulas: Sequence[Expression]) -> tuple[list[str], list[str]]:
        """The lines of formulas, but for what has a name already, and what each is called."""
        lines: list[str] = []
        names = self.known
        for node in in_order(formulas):
            if node.key in names:
                continue
            if node.operation in ("input", "condition_input"):
                names[node.key] = self.values[node.name]
            elif node.operation == "given":
                names[node.key] = names[node.arguments[0].key]
            else:
                names[node.key] = name = next(self.made)
                lines += code(node, name, [names[argument.key] for argument in node.arguments], self.kernel.precision)
        return lines, [names[formula.key] for formula in formulas]

    def _reduced(self, how: str, value: str, place: str) -> str:
        if how == "max":
            return f'tl.max(tl.where(inside, {value}, float("-inf")).to({self.real}), axis=1)[:, None]'
        chosen = f"inside & (k == {self.values[place]})" if how == "at" else "inside"
        return f"tl.sum(tl.where({chosen}, {value}, 0.0).to({self.real}), axis=1)[:, None]"

    # --- rows in one tile --------------------------------------------------------------------------------------------

    def _one_tile(self) -> list[str]:
        lines = [*self._columns(""), *self._loads(("element", "class"))]
        for group in self.passes.groups:
            made, names = self._computed([stage.formula for stage in group])
            lines += made
            for stage, value in zip(group, names, strict=True):
                lines.append(f"{_word(stage.name)} = {self._of_stage(stage.how, value, stage.place)}")
                self.values[stage.name] = _word(stage.name)
        made, names = self._computed([result.formula for result in self.passes.results])
        stores = [self._stored(place, name) for place, name in enumerate(names)]
        return [*lines, *made, *stores]

    def _of_stage(self, how: str, value: str, place: str) -> str:
        return value if how == "row" else self._reduced(how, value, place)

    # --- rows longer than a tile -------------------------------------------------------------------------------------

    def _passes_over_tiles(self) -> list[str]:
        lines: list[str] = []
        for group in self.passes.groups:
            formulas = [stage.formula for stage in group]
            if group[0].how == "row":
                made, names = self._computed(formulas)
                lines += [*made, *[f"{_word(s.name)} = {v}" for s, v in zip(group, names, strict=True)]]
            else:
                least = {"max": 'float("-inf")'}
                lines += [
                    f"{_word(s.name)} = tl.full((ROWS, 1), {least.get(s.how, '0.0')}, {self.real})" for s in group
                ]
                lines += self._over_tiles(formulas, [(_word(s.name), s.how, s.place) for s in group])
            self.values |= {stage.name: _word(stage.name) for stage in group}
        of_rows = [place for place, one in enumerate(self.passes.results) if one.way in ("row", "total")]
        made, names = self._computed([self.passes.results[place].formula for place in of_rows])
        lines += [*made, *[self._stored(place, name) for place, name in zip(of_rows, names, strict=True)]]
        others = [place for place in range(len(self.passes.results)) if place not in of_rows]
        if others:
            lines += self._over_tiles([self.passes.results[place].formula for place in others], [], others)
        return lines

    def _over_tiles(
        self, formulas: Sequence[Expression], stages: Sequence[tuple[str, str, str]], stored: Sequence[int] = ()
    ) -> list[str]:
        before = dict(self.known)
        lines = [*self._columns("start + "), *self._loads(("element", "class"))]
        made, names = self._computed(formulas)
        lines += made
        for (name, how, place), value in zip(stages, names, strict=False):
            found = self._reduced(how, value, place)
            lines.append(f"{name} = tl.maximum({name}, {found})" if how == "max" else f"{name} += {found}")
        lines += [self._stored(place, name) for place, name in zip(stored, names, strict=False)]
        self.known = before  # what a tile has is gone with it
        return ["for start in range(0, classes, WIDTH):", *[f"    {line}" for line in lines]]

    # --- results -----------------------------------------------------------------------------------------------------

    def _stored(self, place: int, value: str) -> str:
        name, walk = f"r{place}", self.kernel.writes[place]
        if walk.axes == "element":
            shaped = f"tl.where(inside, {value}, 0.0).to({self.real})"
            return f"tl.store({self._address(name, walk)}, {shaped}.to({TYPES[walk.kind]}), mask=inside)"
        if walk.axes == "class":
            summed = f"tl.sum(tl.where(inside, {value}, 0.0).to({self.real}), axis=0)[None, :]"
            at = f"{name} + tl.program_id(0) * classes + at_class"
            return f"tl.store({at}, {summed}.to(tl.float64), mask=is_class)"
        shaped = f"tl.where(is_row, {value}, 0.0).to({self.real})"
        if walk.axes == "row":
            return f"tl.store({self._address(name, walk)}, {shaped}.to({TYPES[walk.kind]}), mask=is_row)"
        return f"tl.store({name} + tl.program_id(0), tl.sum(tl.sum({shaped}.to(tl.float64), axis=1), axis=0))"


def _word(stage: str) -> str:
    return f"s_{stage}"


def steps_of(axes: Axes | Way, path: Mapping[str, int]) -> tuple[Step, ...]:
    """How a walk goes along each of its axes.

    >>> steps_of("element", {"batch": 12, "class": 0, "position": 1})
    ('any', 'still', 'one')
    """
    kinds: dict[int, Step] = {0: "still", 1: "one"}
    return tuple(kinds.get(path[axis], "any") for axis in STEPS[axes] if axis in path)
