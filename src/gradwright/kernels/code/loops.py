"""The kernel around a formula: Python for ``machine.lowering``, one loop over the blocks of the rows and columns.

NOTE [Blocks]: the elements are cut into blocks of a fixed size, which threads take one after the other. What is summed
is summed within a block, and the blocks' sums are added up afterwards in their own order, so that no result depends on
how many threads there were. Within a block, at most ``RUN`` float32 numbers are summed as LLVM likes (in the lanes of a
vector), everything above that in float64.

NOTE [Packing]: LLVM doesn't vectorise a formula over operands or results whose columns lie apart. A run of them is
copied into a scratch buffer first, one after the other, or out of one afterwards, and the formula's loop runs over
that; a copy of a run stays in the first cache.
"""

from __future__ import annotations

from collections.abc import Sequence

from gradwright.kernels.code.cpu_code import Body, body
from gradwright.kernels.code.layout import BYTES, Loops, Read, Way, Written, named

RUN = 512  # elements: 16 in each of four vectors of eight lanes, whose rounding stays below 3e-7; fits a scratch buffer
SLOTS = 16  # of results and scratch buffers, for each of which there are instructions


def kernel_source(loops: Loops) -> str:
    """The text of a module that defines ``kernel(parameters)``, the address of an int64 array as ``loops.words()``."""
    return _Writer(loops).text()


class _Writer:
    def __init__(self, loops: Loops) -> None:
        self.loops = loops
        self.inputs = named("x", loops.reads)
        self.results = named("r", loops.writes)
        still = [
            name
            for name, read in zip(loops.program.inputs, loops.reads, strict=True)
            if read.kind == "real" or read.step == "still"
        ]
        local = dict(zip(loops.program.inputs, self.inputs, strict=True))
        self.body: Body = body(loops.program, loops.precision, local, still)
        self.summed = [name for name, _ in (*self._of("total"), *self._of("rows"))]
        apart = [name for name, read in zip(self.inputs, loops.reads, strict=True) if read.step == "any"]
        apart += [name for name, write in self._of("written") if write.step == "any"]
        slots = range(len(self.results), SLOTS)
        self.packed = dict(zip(apart, slots, strict=False))  # see NOTE [Packing]

    def text(self) -> str:
        kernel = [
            "def kernel(parameters):",
            *_indented(self._parameters()),
            "    while True:",
            "        block = next_block(parameters)",
            "        if block >= blocks:",
            "            break",
            *_indented(self._block(), 8),
            "        block_done(parameters)",
        ]
        constants = [f"{name} = {self._real}({value!r})" for name, value in self.body.constants.items()]
        return "\n".join([*constants, "", "", *kernel, ""]).lstrip()

    @property
    def _real(self) -> str:
        return "float32" if self.loops.precision == "f32" else "float64"

    def _parameters(self) -> list[str]:
        lines = []
        for place, word in list(enumerate(self.loops.words()))[2:]:  # the first two belong to the instructions
            if word.endswith(" number"):
                lines.append(f"{word.split()[0]} = {self._real}(real_word(parameters, {place}))")
            else:
                lines.append(f"{word.replace(' ', '_')} = word(parameters, {place})")
        for name, slot in self.packed.items():
            lines.append(f"{name}_run = scratch_{slot}()")
        return lines

    def _block(self) -> list[str]:
        loops = self.loops
        lines = [
            "segment = block % segments",
            "first = segment * columns_a_block",
            "last = min(first + columns_a_block, columns)",
        ]
        if loops.row_axes:
            lines += [
                "row_block = block // segments",
                "first_row = row_block * rows_a_block",
                "last_row = min(first_row + rows_a_block, rows)",
            ]
        for name, write in zip(self.results, loops.writes, strict=True):
            if write.way == "total":
                lines.append(f"{name}_total = 0.0")
            if write.way == "columns":
                slot = name[1:]
                lines += [
                    f"{name}_row = {name}_address + row_block * columns * 8",
                    "for column in range(first, last):",
                    f"    store_f64_{slot}({name}_row, column, 0.0)",
                ]
        if loops.row_axes:
            lines.append("for row in range(first_row, last_row):")
            lines += _indented([*self._row_start(), *self._row()])
        else:
            lines += self._row()
        for name, write in zip(self.results, loops.writes, strict=True):
            if write.way == "total":
                lines.append(f"store_f64_{name[1:]}({name}_address, block, {name}_total)")
        return lines

    def _row_start(self) -> list[str]:
        """The place of each walker that moves from row to row, from the row's number."""
        axes = self.loops.row_axes
        lines, left = [], "row"
        for axis in reversed(range(1, axes)):
            lines += [f"at_{axis} = {left} % size_{axis}", f"left_{axis} = {left} // size_{axis}"]
            left = f"left_{axis}"
        lines.append(f"at_0 = {left}")
        walkers: list[tuple[str, Read | Written]] = [
            *zip(self.inputs, self.loops.reads, strict=True),
            *zip(self.results, self.loops.writes, strict=True),
        ]
        for name, walker in walkers:
            if walker.moves and (isinstance(walker, Read) or walker.way == "written"):
                steps = " + ".join(f"at_{axis} * {name}_row_step_{axis}" for axis in range(axes))
                lines.append(f"{name}_row = {name}_address + ({steps}) * {BYTES[walker.kind]}")
        return lines

    def _row(self) -> list[str]:
        loops = self.loops
        lines = []
        for name, read in zip(self.inputs, loops.reads, strict=True):
            if read.kind != "real" and read.step == "still":
                lines.append(f"{name} = {self._load(name, read, '0')}")
        lines += self.body.before
        lines += [f"{name}_along = 0.0" for name, write in self._of("rows")]
        inner = self._inner()
        if self.summed or self.packed:
            lines += [
                f"for start in range(first, last, {RUN}):",
                f"    stop = min(start + {RUN}, last)",
                *_indented(self._packing()),
                *[f"    {name}_sum = {self._real}(0.0)" for name in self.summed],
                "    for column in range(start, stop):",
                *_indented(inner, 8),
                *[f"    {name}_total += {name}_sum" for name, _ in self._of("total")],
                *[f"    {name}_along += {name}_sum" for name, _ in self._of("rows")],
                *_indented(self._unpacking()),
            ]
        else:
            lines += ["for column in range(first, last):", *_indented(inner)]
        row = "row" if loops.row_axes else "0"
        for name, _ in self._of("rows"):
            store = f"store_f64_{name[1:]}"
            lines.append(f"{store}({name}_address, {row} * segments + segment, {name}_along)")
        return lines

    def _of(self, way: Way) -> list[tuple[str, Written]]:
        return [(n, w) for n, w in zip(self.results, self.loops.writes, strict=True) if w.way == way]

    def _is_condition(self, name: str) -> bool:
        return self.loops.program.inputs[int(name[1:])] in self.loops.program.conditions

    def _load(self, name: str, read: Read, column: str, *, as_number: bool = False) -> str:
        as_condition = self._is_condition(name) and not as_number
        load = "load_bool" if as_condition else f"load_{read.kind}_as_{self.loops.precision}"
        return f"{load}({_start(name, read)}, {column})"

    def _store(self, name: str, write: Written, column: str, value: str) -> str:
        return f"store_{write.kind}_{name[1:]}({_start(name, write)}, {column}, {value})"

    def _into_run(self, name: str, value: str) -> str:
        store = f"store_{self.loops.precision}_{self.packed[name]}"
        return f"{store}({name}_run, column - start, {value})"

    def _out_of_run(self, name: str) -> str:
        return f"reload_{self.loops.precision}_{self.packed[name]}({name}_run, column - start)"

    def _packing(self) -> list[str]:
        lines = []
        for name, read in zip(self.inputs, self.loops.reads, strict=True):
            if name in self.packed:
                value = self._load(name, read, f"column * {name}_step", as_number=True)
                lines += ["for column in range(start, stop):", f"    {self._into_run(name, value)}"]
        return lines

    def _unpacking(self) -> list[str]:
        lines = []
        for name, write in self._of("written"):
            if name in self.packed:
                store = self._store(name, write, f"column * {name}_step", self._out_of_run(name))
                lines += ["for column in range(start, stop):", f"    {store}"]
        return lines

    def _read(self, name: str, read: Read) -> str:
        if name not in self.packed:
            return self._load(name, read, _column(name, read))
        return self._out_of_run(name) + (f" != {self._real}(0.0)" if self._is_condition(name) else "")

    def _written(self, name: str, write: Written, value: str) -> str:
        return (
            self._into_run(name, value)
            if name in self.packed
            else self._store(name, write, _column(name, write), value)
        )

    def _inner(self) -> list[str]:
        lines = []
        for name, read in zip(self.inputs, self.loops.reads, strict=True):
            if read.kind != "real" and read.step != "still":
                lines.append(f"{name} = {self._read(name, read)}")
        lines += self.body.lines
        for (name, write), value in zip(
            zip(self.results, self.loops.writes, strict=True), self.body.results, strict=True
        ):
            slot = name[1:]
            if write.way == "written":
                lines.append(self._written(name, write, value))
            elif write.way == "columns":
                before = f"reload_f64_{slot}({name}_row, column)"
                lines.append(f"store_f64_{slot}({name}_row, column, {before} + {value})")
            else:
                lines.append(f"{name}_sum = add_in_any_order({name}_sum, {value})")
        return lines


def _start(name: str, walker: Read | Written) -> str:
    return f"{name}_row" if walker.moves else f"{name}_address"


def _column(name: str, walker: Read | Written) -> str:
    return "column" if walker.step == "one" else f"column * {name}_step"


def _indented(lines: Sequence[str], spaces: int = 4) -> list[str]:
    return [" " * spaces + line for line in lines]
