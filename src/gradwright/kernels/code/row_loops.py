"""The kernel around a row program: Python that Numba compiles, one loop over blocks of rows.

NOTE [Order of sums]: a block's rows are a fixed number, and what blocks have summed is added up afterwards in their own
order, so that no result depends on how many threads there were. Along a row, at most ``RUN`` float32 numbers are summed
as LLVM likes (in the lanes of a vector), everything above that in float64.

NOTE [Maxima as integers]: LLVM makes no vector code of a maximum of floats that keeps NaN. The bits of a float, those
below the sign turned round where it is negative, are an integer of the same order, in which a positive NaN is above
infinity; a negative one is below, and becomes NaN in what is computed from the row's numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count

from gradwright.kernels.code.layout import BYTES
from gradwright.kernels.code.numba_code import Body, body
from gradwright.kernels.code.row_layout import STEPS, RowLoops, RowRead, RowWritten, named
from gradwright.kernels.formula.expression import Expression
from gradwright.kernels.formula.stages import CLASS, Outcome, Stage, names_in

RUN = 1024  # elements of a row that are summed in float32
SIDE_BY_SIDE = 256  # rows in a run, across: their stages lie in the first cache
SLOTS = 16  # of results and scratch buffers, for each of which there are instructions


def row_kernel_source(loops: RowLoops) -> str:
    """The text of a module that defines ``kernel(parameters)``, the address of an int64 array as ``loops.words()``."""
    return (_Along(loops) if loops.walk == "along" else _Across(loops)).text()


def fits(loops: RowLoops) -> bool:
    """Are there instructions for as many results and scratch buffers?"""
    rows = sum(read.axes == "row" for read in loops.reads)
    return len(loops.writes) + (len(loops.program.stages) + rows if loops.walk == "across" else 0) <= SLOTS


class _Writer:
    """What both walks share."""

    invariant: frozenset[str]

    def __init__(self, loops: RowLoops) -> None:
        self.loops = loops
        self.program = loops.program
        self.inputs = named("x", loops.reads)
        self.results = named("r", loops.writes)
        self.real = "float32" if loops.precision == "f32" else "float64"
        self.names = {"word", "next_block", "block_done"}
        self.imports: set[tuple[str, str]] = set()
        self.constants: dict[str, float] = {}
        self.marks = count()
        self.local = {name: local for (name, _), local in zip(self.program.inputs, self.inputs, strict=True)}
        self.local |= {stage.name: f"s{place}" for place, stage in enumerate(self.program.stages)} | {CLASS: "k"}
        self.reads = dict(zip(self.local, loops.reads, strict=False))
        self.outcomes: list[tuple[str, RowWritten, Outcome]] = list(
            zip(self.results, loops.writes, self.program.results, strict=True)
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
        return "\n".join([*self.import_lines(), "", *constants, "", "", *kernel, ""])

    def block(self) -> list[str]:
        raise NotImplementedError

    def import_lines(self) -> list[str]:
        homes = {"gradwright.kernels.machine.instructions": set(self.names)}
        for module, name in self.imports:
            homes.setdefault(module, set()).add(name)
        lines = ["from numpy import float32, float64, inf, nan", ""]
        for module, names in sorted(homes.items()):
            lines += [f"from {module} import (", *[f"    {name}," for name in sorted(names)], ")"]
        return lines

    def use(self, name: str) -> str:
        self.names.add(name)
        return name

    def parameters(self) -> list[str]:
        lines = []
        for place, word in list(enumerate(self.loops.words()))[2:]:  # the first two belong to the instructions
            if word.endswith(" number"):
                lines.append(f"{word.split()[0]} = {self.real}({self.use('real_word')}(parameters, {place}))")
            else:
                lines.append(f"{word.replace(' ', '_')} = word(parameters, {place})")
        return lines

    def body(self, formulas: Sequence[Expression]) -> Body:
        made = body(
            self.program.formulas(formulas), self.loops.precision, self.local, self.invariant, f"_{next(self.marks)}_"
        )
        self.constants |= made.constants
        self.imports |= made.imports
        return made

    def needed(self, formulas: Sequence[Expression]) -> set[str]:
        return set().union(*[names_in(formula) for formula in formulas]) if formulas else set()

    def load(self, read: RowRead, start: str, index: str) -> str:
        return f"{self.use(f'load_{read.kind}_as_{self.loops.precision}')}({start}, {index})"

    def store(self, name: str, write: RowWritten, start: str, index: str, value: str) -> str:
        return f"{self.use(f'store_{write.kind}_{name[1:]}')}({start}, {index}, {value})"

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
                    f"    {self.use(f'store_f64_{name[1:]}')}({name}_block, column, 0.0)",
                ]
        return lines

    def sums_end(self) -> list[str]:
        return [
            f"{self.use(f'store_f64_{name[1:]}')}({name}_address, block, {name}_total)"
            for name, _, outcome in self.outcomes
            if outcome.way == "total"
        ]

    def add_to_class(self, name: str, value: str) -> str:
        slot = name[1:]
        before = f"{self.use(f'reload_f64_{slot}')}({name}_block, column)"
        return f"{self.use(f'store_f64_{slot}')}({name}_block, column, {before} + {value})"


class _Along(_Writer):
    """A row after the other."""

    def __init__(self, loops: RowLoops) -> None:
        super().__init__(loops)
        varying = {name for name, axes in loops.program.inputs if axes in ("element", "class")} | {CLASS}
        self.invariant = frozenset(self.local) - varying

    def block(self) -> list[str]:
        return [
            *self.sums_begin(),
            "for position in range(first, last):",
            *indented([*self.row_start(), *self.stages(), *self.ends()]),
            *self.sums_end(),
        ]

    def row_start(self) -> list[str]:
        lines = []
        for local, read in zip(self.inputs, self.loops.reads, strict=True):
            if read.axes == "element":
                lines.append(f"{local}_row = {self.place(local, read, 'batch', 'position')}")
            if read.axes == "row":
                lines.append(f"{local} = {self.load(read, self.place(local, read, 'batch', 'position'), '0')}")
        for name, write, outcome in self.outcomes:
            if outcome.way in ("element", "row"):
                lines.append(f"{name}_row = {self.place(name, write, 'batch', 'position')}")
        return lines

    def loads(self, names: set[str]) -> list[str]:
        lines = [f"k = {self.real}(column)"] if CLASS in names else []
        for name in sorted(names):
            read, local = self.reads.get(name), self.local[name]
            if read is not None and read.axes in ("element", "class"):
                start = f"{local}_row" if read.axes == "element" else f"{local}_address"
                index = "column" if read.is_dense else f"column * {local}_class_step"
                lines.append(f"{local} = {self.load(read, start, index)}")
        return lines

    def stages(self) -> list[str]:
        lines = []
        for group in self.program.groups:
            if group[0].how == "row":
                made = self.body([stage.formula for stage in group])
                lines += made.before
                lines += [
                    f"{self.local[stage.name]} = {value}" for stage, value in zip(group, made.results, strict=True)
                ]
                continue
            reduced = [stage for stage in group if stage.how != "at"]
            if reduced:
                lines += self.reduction(reduced)
            for stage in group:
                if stage.how == "at":
                    lines += self.picked(stage)
        return lines

    def reduction(self, group: Sequence[Stage]) -> list[str]:
        formulas = [stage.formula for stage in group]
        made = self.body(formulas)
        lines = list(made.before)
        inner = [*self.loads(self.needed(formulas)), *made.lines]
        begin, run_begin, run_end, end = [], [], [], []
        for stage, value in zip(group, made.results, strict=True):
            local = self.local[stage.name]
            if stage.how == "max":
                ordered = self.use("in_order")
                begin.append(f"{local}_most = {ordered}({self.real}(-inf))")
                inner.append(f"{local}_most = max({local}_most, {ordered}({value}))")
                end.append(f"{local} = {self.use('from_order')}({local}_most)")
            else:
                begin.append(f"{local}_along = 0.0")
                run_begin.append(f"{local}_sum = {self.real}(0.0)")
                inner.append(f"{local}_sum = {self.use('add_in_any_order')}({local}_sum, {value})")
                run_end.append(f"{local}_along += {local}_sum")
                end.append(f"{local} = {self.real}({local}_along)")
        return [
            *lines,
            *begin,
            f"for start in range(0, classes, {RUN}):",
            f"    stop = min(start + {RUN}, classes)",
            *indented(run_begin),
            "    for column in range(start, stop):",
            *indented(inner, 8),
            *indented(run_end),
            *end,
        ]

    def picked(self, stage: Stage) -> list[str]:
        made = self.body([stage.formula])
        local, place = self.local[stage.name], self.local[stage.place]
        return [
            f"{local} = {self.real}(0.0)",
            f"if {place} >= {self.real}(0.0) and {place} < {self.real}(classes):",
            f"    column = int({place})",
            *indented([*self.loads(self.needed([stage.formula])), *made.before, *made.lines]),
            f"    {local} = {made.results[0]}",
        ]

    def ends(self) -> list[str]:
        lines = []
        of_rows = [(name, write, outcome) for name, write, outcome in self.outcomes if outcome.way in ("row", "total")]
        if of_rows:
            made = self.body([outcome.formula for _, _, outcome in of_rows])
            lines += made.before
            for (name, write, outcome), value in zip(of_rows, made.results, strict=True):
                if outcome.way == "row":
                    lines.append(self.store(name, write, f"{name}_row", "0", value))
                else:
                    lines.append(f"{name}_total += {value}")
        of_elements = [each for each in self.outcomes if each[2].way in ("element", "class")]
        if of_elements:
            formulas = [outcome.formula for _, _, outcome in of_elements]
            made = self.body(formulas)
            lines += [*made.before, "for column in range(classes):"]
            inner = [*self.loads(self.needed(formulas)), *made.lines]
            for (name, write, outcome), value in zip(of_elements, made.results, strict=True):
                if outcome.way == "element":
                    index = "column" if write.is_dense else f"column * {name}_class_step"
                    inner.append(self.store(name, write, f"{name}_row", index, value))
                else:
                    inner.append(self.add_to_class(name, value))
            lines += indented(inner)
        return lines


class _Across(_Writer):
    """A run of rows together; what each has by now lies in scratch buffers."""

    def __init__(self, loops: RowLoops) -> None:
        super().__init__(loops)
        self.invariant = frozenset(
            {name for name, axes in loops.program.inputs if axes in ("class", "number")} | {CLASS}
        )
        kept = [name for name, axes in loops.program.inputs if axes == "row"]
        kept += [stage.name for stage in loops.program.stages]
        self.slot = {name: len(self.results) + place for place, name in enumerate(kept)}

    def parameters(self) -> list[str]:
        runs = [f"{self.local[name]}_run = {self.use(f'scratch_{slot}')}()" for name, slot in self.slot.items()]
        return [*super().parameters(), *runs]

    def block(self) -> list[str]:
        return [
            *self.sums_begin(),
            f"for start in range(first, last, {SIDE_BY_SIDE}):",
            f"    stop = min(start + {SIDE_BY_SIDE}, last)",
            *indented([*self.run_start(), *self.stages(), *self.ends()]),
            *self.sums_end(),
        ]

    def keep(self, name: str, value: str) -> str:
        store = self.use(f"store_{self.loops.precision}_{self.slot[name]}")
        return f"{store}({self.local[name]}_run, position - start, {value})"

    def kept(self, name: str) -> str:
        load = self.use(f"reload_{self.loops.precision}_{self.slot[name]}")
        return f"{load}({self.local[name]}_run, position - start)"

    def run_start(self) -> list[str]:
        lines = []
        for (name, axes), local, read in zip(self.program.inputs, self.inputs, self.loops.reads, strict=True):
            if axes == "row":
                index = "position" if read.is_dense else f"position * {local}_position_step"
                value = self.load(read, f"{local}_batch", index)
                lines += [
                    f"{local}_batch = {self.place(local, read, 'batch')}",
                    "for position in range(start, stop):",
                    f"    {self.keep(name, value)}",
                ]
        return lines

    def outside(self, names: set[str]) -> list[str]:
        """In the loop over classes, before the one over rows."""
        lines = [f"k = {self.real}(column)"] if CLASS in names else []
        for name in sorted(names):
            read, local = self.reads.get(name), self.local[name]
            if read is not None and read.axes == "class":
                lines.append(f"{local} = {self.load(read, f'{local}_address', f'column * {local}_class_step')}")
            if read is not None and read.axes == "element":
                lines.append(f"{local}_class = {self.place(local, read, 'batch', 'class')}")
        return lines

    def inside(self, names: set[str]) -> list[str]:
        lines = []
        for name in sorted(names):
            read, local = self.reads.get(name), self.local[name]
            if read is not None and read.axes == "element":
                index = "position" if read.is_dense else f"position * {local}_position_step"
                lines.append(f"{local} = {self.load(read, f'{local}_class', index)}")
            elif name in self.slot:
                lines.append(f"{local} = {self.kept(name)}")
        return lines

    def stages(self) -> list[str]:
        lines = []
        for group in self.program.groups:
            formulas = [stage.formula for stage in group]
            made = self.body(formulas)
            needs = self.needed(formulas)
            if group[0].how == "row":
                inner = [*self.inside(needs), *made.lines]
                inner += [self.keep(stage.name, value) for stage, value in zip(group, made.results, strict=True)]
                lines += [*made.before, "for position in range(start, stop):", *indented(inner)]
                continue
            least = {"max": f"{self.real}(-inf)", "sum": f"{self.real}(0.0)", "at": f"{self.real}(0.0)"}
            lines += ["for position in range(start, stop):"]
            lines += indented([self.keep(stage.name, least[stage.how]) for stage in group])
            needs |= {stage.place for stage in group if stage.how == "at"}
            if any(stage.how == "at" for stage in group):
                needs.add(CLASS)
            inner = [*self.inside(needs), *made.lines]
            for stage, value in zip(group, made.results, strict=True):
                before = self.kept(stage.name)
                if stage.how == "max":
                    self.imports.add(("gradwright.kernels.machine.approximations", "maximum"))
                    inner.append(self.keep(stage.name, f"maximum({before}, {value})"))
                elif stage.how == "sum":
                    inner.append(self.keep(stage.name, f"{before} + {value}"))
                else:
                    chosen = f"{self.use('select')}({self.local[stage.place]} == k, {value}, {before})"
                    inner.append(self.keep(stage.name, chosen))
            lines += [
                "for column in range(classes):",
                *indented([*self.outside(needs), *made.before]),
                "    for position in range(start, stop):",
                *indented(inner, 8),
            ]
        return lines

    def ends(self) -> list[str]:
        lines = []
        of_rows = [(name, write, outcome) for name, write, outcome in self.outcomes if outcome.way in ("row", "total")]
        if of_rows:
            formulas = [outcome.formula for _, _, outcome in of_rows]
            made = self.body(formulas)
            inner = [*self.inside(self.needed(formulas)), *made.lines]
            begin, end = list(made.before), []
            for (name, write, outcome), value in zip(of_rows, made.results, strict=True):
                if outcome.way == "row":
                    begin.append(f"{name}_batch = {self.place(name, write, 'batch')}")
                    index = "position" if write.is_dense else f"position * {name}_position_step"
                    inner.append(self.store(name, write, f"{name}_batch", index, value))
                else:
                    begin.append(f"{name}_sum = {self.real}(0.0)")
                    inner.append(f"{name}_sum = {self.use('add_in_any_order')}({name}_sum, {value})")
                    end.append(f"{name}_total += {name}_sum")
            lines += [*begin, "for position in range(start, stop):", *indented(inner), *end]
        of_elements = [each for each in self.outcomes if each[2].way in ("element", "class")]
        if of_elements:
            formulas = [outcome.formula for _, _, outcome in of_elements]
            made = self.body(formulas)
            needs = self.needed(formulas)
            begin, inner, end = [*self.outside(needs), *made.before], [*self.inside(needs), *made.lines], []
            for (name, write, outcome), value in zip(of_elements, made.results, strict=True):
                if outcome.way == "element":
                    begin.append(f"{name}_class = {self.place(name, write, 'batch', 'class')}")
                    index = "position" if write.is_dense else f"position * {name}_position_step"
                    inner.append(self.store(name, write, f"{name}_class", index, value))
                else:
                    begin.append(f"{name}_sum = {self.real}(0.0)")
                    inner.append(f"{name}_sum = {self.use('add_in_any_order')}({name}_sum, {value})")
                    end.append(self.add_to_class(name, f"{name}_sum"))
            lines += [
                "for column in range(classes):",
                *indented(begin),
                "    for position in range(start, stop):",
                *indented(inner, 8),
                *indented(end),
            ]
        return lines


def indented(lines: Sequence[str], spaces: int = 4) -> list[str]:
    return [" " * spaces + line for line in lines]
