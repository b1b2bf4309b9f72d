"""What both walks over rows share: parameters, addresses, sums; see the notes in ``row_loops``."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count

from gradwright.kernels.code.cpu_code import Body, body
from gradwright.kernels.code.layout import BYTES
from gradwright.kernels.code.row_layout import STEPS, RowLoops, RowRead, RowWritten, named
from gradwright.kernels.formula.expression import Expression
from gradwright.kernels.formula.program import Program
from gradwright.kernels.formula.row_passes import below_the_maximum, passes_of
from gradwright.kernels.formula.stages import CLASS, HELD, Outcome, names_in

RUN = 1024  # elements of a row that are summed in float32
SIDE_BY_SIDE = 256  # rows in a run, across, at most: their stages lie in the first cache
LANES = 16  # a run is a multiple of; so far apart, in a scratch buffer, that the cache's sets are all used
ROOM = {"f32": 2048, "f64": 1024}  # elements of a run that a scratch buffer has room for
SLOTS = 16  # of results and scratch buffers, for each of which there are instructions


class Writer:
    """What both walks share."""

    invariant: frozenset[str]

    def __init__(self, loops: RowLoops) -> None:
        self.loops = loops
        self.program = loops.program
        self.inputs = named("x", loops.reads)
        self.results = named("r", loops.writes)
        self.real = "float32" if loops.precision == "f32" else "float64"
        self.constants: dict[str, float] = {}
        self.marks = count()
        self.local = {name: local for (name, _), local in zip(self.program.inputs, self.inputs, strict=True)}
        self.local |= {stage.name: f"s{place}" for place, stage in enumerate(self.program.stages)} | {CLASS: "k"}
        self.local[HELD] = "held"
        self.reads = dict(zip(self.local, loops.reads, strict=False))
        # What is held may lie where a result will be: it is read again before that is written.
        kinds = [write.kind if write.way == "element" else "" for write in loops.writes]
        self.holder = kinds.index(loops.precision) if loops.precision in kinds else None
        plain = below_the_maximum(self.program)
        self.whole = plain.results
        self.passes = passes_of(plain, self.holder is not None or loops.is_narrow)
        self.outcomes: list[tuple[str, RowWritten, Outcome]] = list(
            zip(self.results, loops.writes, self.passes.results, strict=True)
        )

    def text(self) -> str:
        block = self.block()
        parameters = self.parameters()
        kernel = [
            "def kernel(parameters):",
            *indented(parameters),
            "    while True:",
            "        block = next_block(parameters)",
            "        if block >= blocks:",
            "            break",
            "        batch = block // segments",
            "        first = block % segments * positions_a_block",
            "        last = min(first + positions_a_block, positions)",
            *indented(block, 8),
            "        block_done(parameters)",
        ]
        constants = [f"{name} = {self.real}({value!r})" for name, value in self.constants.items()]
        return "\n".join([*constants, "", "", *kernel, ""]).lstrip()

    def block(self) -> list[str]:
        raise NotImplementedError

    def parameters(self) -> list[str]:
        lines = []
        for place, word in list(enumerate(self.loops.words()))[2:]:  # the first two belong to the instructions
            if word.endswith(" number"):
                lines.append(f"{word.split()[0]} = {self.real}(real_word(parameters, {place}))")
            else:
                lines.append(f"{word.replace(' ', '_')} = word(parameters, {place})")
        return lines

    def body(self, formulas: Sequence[Expression]) -> Body:
        program = Program(tuple(self.local), tuple(formulas))
        made = body(program, self.loops.precision, self.local, self.invariant, f"_{next(self.marks)}_")
        self.constants |= made.constants
        return made

    def needed(self, formulas: Sequence[Expression]) -> set[str]:
        return set().union(*[names_in(formula) for formula in formulas]) if formulas else set()

    def load(self, read: RowRead, start: str, index: str) -> str:
        return f"load_{read.kind}_as_{self.loops.precision}({start}, {index})"

    def store(self, name: str, write: RowWritten, start: str, index: str, value: str) -> str:
        return f"store_{write.kind}_{name[1:]}({start}, {index}, {value})"

    def place(self, name: str, walker: RowRead | RowWritten, *axes: str) -> str:
        """The address of a walker's element at these indices (``batch``, ``class``, ``position``), 0 along others."""
        all_axes = STEPS[walker.axes if isinstance(walker, RowRead) else walker.way]
        steps = " + ".join(
            f"{axis if axis != 'class' else 'column'} * {name}_{axis}_step" for axis in all_axes if axis in axes
        )
        return f"{name}_address + ({steps}) * {BYTES[walker.kind]}" if steps else f"{name}_address"

    def sums_begin(self) -> list[str]:
        lines = []
        for name, _, outcome in self.outcomes:
            if outcome.way == "total":
                lines.append(f"{name}_total = 0.0")
            if outcome.way == "class":
                lines += [
                    f"{name}_block = {name}_address + block * classes * 8",
                    "for column in range(classes):",
                    f"    store_f64_{name[1:]}({name}_block, column, 0.0)",
                ]
        return lines

    def sums_end(self) -> list[str]:
        return [
            f"store_f64_{name[1:]}({name}_address, block, {name}_total)"
            for name, _, outcome in self.outcomes
            if outcome.way == "total"
        ]

    def add_to_class(self, name: str, value: str) -> str:
        slot = name[1:]
        before = f"reload_f64_{slot}({name}_block, column)"
        return f"store_f64_{slot}({name}_block, column, {before} + {value})"


def indented(lines: Sequence[str], spaces: int = 4) -> list[str]:
    return [" " * spaces + line for line in lines]
