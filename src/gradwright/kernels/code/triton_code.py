"""A program as a Triton kernel: one pass over memory, on an accelerator.

One program instance takes a block of elements, numbered along all axes together; where there are several axes left, the
number is taken apart into a place on each. What is summed over everything is summed within each block, and the blocks'
sums are written side by side: added up afterwards, never atomically, they make the same result each time.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import count
from typing import Final, Literal

from gradwright.kernels.code.triton_operations import TYPES, Precision, code
from gradwright.kernels.formula.expression import in_order
from gradwright.kernels.formula.program import Program

Step = Literal["still", "one", "any"]  # from a place to the next one: 0, 1, or what a parameter says

_HEAD: Final = """\
import triton
import triton.language as tl
from triton.language.extra import libdevice


@triton.jit
"""


@dataclass(frozen=True)
class Walk:
    """How an operand or a result is walked through. ``kind``: of its elements, or "real" for a Python number.

    ``steps``: one for each axis of the walk, the last one fastest.
    """

    kind: str
    steps: tuple[Step, ...] = ("one",)

    @property
    def stands_still(self) -> bool:
        return all(step == "still" for step in self.steps)


@dataclass(frozen=True)
class Kernel:
    """All that the text of a kernel depends on. A result without a walk is a sum over everything.

    ``is_wide``: places need 64 bits.
    """

    program: Program
    precision: Precision
    reads: tuple[Walk, ...]
    writes: tuple[Walk | None, ...]
    axes: int = 1
    is_wide: bool = False

    @property
    def used(self) -> tuple[int, ...]:
        """The operands that a formula names; the others are not handed over."""
        nodes = in_order(self.program.outputs)
        named = {node.name for node in nodes if node.operation in ("input", "condition_input")}
        return tuple(place for place, name in enumerate(self.program.inputs) if name in named)

    def parameters(self) -> tuple[str, ...]:
        """What it is called with, in this order: ``x0`` (an address, or a number), ``r0``, ``x0_step_1``, ``size_1``,
        ``elements``; then the constant ``BLOCK``."""
        read = {f"x{place}": self.reads[place] for place in self.used}
        written = {f"r{place}": walk for place, walk in enumerate(self.writes) if walk is not None}
        return (
            *read,
            *[f"r{place}" for place in range(len(self.writes))],
            *[
                f"{name}_step_{axis}"
                for name, walk in {**read, **written}.items()
                if walk.kind != "real"
                for axis, step in enumerate(walk.steps)
                if step == "any"
            ],
            *[f"size_{axis}" for axis in range(1, self.axes)],
            "elements",
        )

    def source(self, name: str = "kernel") -> str:
        """A module's text that defines the kernel."""
        numbers = {f"x{place}" for place in self.used if self.reads[place].kind == "real"}
        # Annotated, a Python float is handed over as what is computed with.
        typed = [f'{word}: "fp{self.precision[1:]}"' if word in numbers else word for word in self.parameters()]
        computing, names = self._computing()
        lines = [*self._place(), *self._loads(), *computing, *self._stores(names)]
        body = "".join(f"    {line}\n" for line in lines)
        return f"{_HEAD}def {name}({', '.join([*typed, 'BLOCK: tl.constexpr'])}):\n{body}"

    def _place(self) -> list[str]:
        block = "tl.program_id(0).to(tl.int64)" if self.is_wide else "tl.program_id(0)"
        lines = [f"place = {block} * BLOCK + tl.arange(0, BLOCK)", "inside = place < elements"]
        left = "place"
        for axis in reversed(range(1, self.axes)):
            lines += [f"at_{axis} = {left} % size_{axis}", f"left_{axis} = {left} // size_{axis}"]
            left = f"left_{axis}"
        return [*lines, f"at_0 = {left}"]

    def _address(self, name: str, walk: Walk) -> str:
        parts = [
            f"at_{axis}" if step == "one" else f"at_{axis} * {name}_step_{axis}"
            for axis, step in enumerate(walk.steps)
            if step != "still"
        ]
        return " + ".join([name, *parts])

    def _loads(self) -> list[str]:
        lines, real = [], TYPES[self.precision]
        for place in self.used:
            name, walk = f"x{place}", self.reads[place]
            is_condition = self.program.inputs[place] in self.program.conditions
            if walk.kind == "real":
                loaded = f"tl.full((), {name}, {real})"
            else:
                mask = "" if walk.stands_still else ", mask=inside, other=0"
                loaded = f"tl.load({self._address(name, walk)}{mask}).to({real})"
            lines.append(f"v{place} = {loaded} != 0" if is_condition else f"v{place} = {loaded}")
        return lines

    def _computing(self) -> tuple[list[str], dict[bytes, str]]:
        """The lines of the formulas, and what each expression is called in them."""
        values = {name: f"v{place}" for place, name in enumerate(self.program.inputs)}
        lines: list[str] = []
        names: dict[bytes, str] = {}
        made = (f"t{number}" for number in count())
        for node in in_order(self.program.outputs):
            if node.operation in ("input", "condition_input"):
                names[node.key] = values[node.name]
            elif node.operation == "given":
                names[node.key] = names[node.arguments[0].key]
            else:
                names[node.key] = name = next(made)
                lines += code(node, name, [names[argument.key] for argument in node.arguments], self.precision)
        return lines, names

    def _stores(self, names: Mapping[bytes, str]) -> list[str]:
        lines = []
        for place, (walk, output) in enumerate(zip(self.writes, self.program.outputs, strict=True)):
            name, value = f"r{place}", names[output.key]
            if walk is None:
                lines += [
                    f"{name}_sum = tl.sum(tl.where(inside, {value}, 0.0).to({TYPES[self.precision]}), axis=0)",
                    f"tl.store({name} + tl.program_id(0), {name}_sum.to(tl.float64))",
                ]
            else:
                at = f"{name} + at_0" if walk.stands_still else self._address(name, walk)  # still: of one element
                lines.append(f"tl.store({at}, {value}.to({TYPES[walk.kind]}), mask=inside)")
        return lines


def triton_source(program: Program, name: str = "kernel") -> str:
    """The text of the kernel for contiguous float32 operands of one shape, whose results are all written.

    ``Kernel(...).source()`` is that for other dtypes, strides and sums. Names in the text are ours: ``x0``, ``t3``.

    >>> from gradwright.kernels.formula.expression import call, number
    >>> x = number("x")
    >>> print(triton_source(Program(("x",), (call("exp", x) * 2.0,))).partition("@triton.jit")[2])
    <BLANKLINE>
    def kernel(x0, r0, elements, BLOCK: tl.constexpr):
        place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        inside = place < elements
        at_0 = place
        v0 = tl.load(x0 + at_0, mask=inside, other=0).to(tl.float32)
        t0 = libdevice.exp(v0)
        t1 = tl.full((), 2.0, tl.float32)
        t2 = t0 * t1
        tl.store(r0 + at_0, t2.to(tl.float32), mask=inside)
    <BLANKLINE>
    """
    reads = tuple(Walk("bool" if given in program.conditions else "f32") for given in program.inputs)
    return Kernel(program, "f32", reads, (Walk("f32"),) * len(program.outputs)).source(name)
