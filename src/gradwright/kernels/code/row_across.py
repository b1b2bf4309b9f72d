"""A kernel of rows that takes a run of rows together, the same class of each in the inner loop."""

from __future__ import annotations

from collections.abc import Sequence

from gradwright.kernels.code.row_layout import RowLoops
from gradwright.kernels.code.row_writer import LANES, Writer, indented
from gradwright.kernels.formula.stages import CLASS, HELD


class Across(Writer):
    """A run of rows together; what each has by now lies in scratch buffers."""

    def __init__(self, loops: RowLoops) -> None:
        super().__init__(loops)
        self.invariant = frozenset(
            {name for name, axes in loops.program.inputs if axes in ("class", "number")} | {CLASS}
        )
        kept = [name for name, axes in loops.program.inputs if axes == "row"]
        kept += [stage.name for stage in loops.program.stages]
        self.slot = {name: len(self.results) + place for place, name in enumerate(kept)}
        # By local names: what has an element for each of a run's.
        packed = [
            local
            for local, read in zip(self.inputs, loops.reads, strict=True)
            if read.axes == "element" and not read.is_dense
        ]
        packed += [name for name, write, _ in self.outcomes if write.way == "element" and not write.is_dense]
        wide = [*packed, *(["held"] if self.passes.held is not None else [])] if loops.is_narrow else []
        first = len(self.results) + len(kept)
        self.wide = {name: first + place for place, name in enumerate(wide)}
        self.slots = first + len(wide)

    def parameters(self) -> list[str]:
        runs = [f"{self.local[name]}_run = scratch_{slot}()" for name, slot in self.slot.items()]
        runs += [f"{name}_run = scratch_{slot}()" for name, slot in self.wide.items()]
        return [*super().parameters(), *runs, f"pitch = positions_a_run + {LANES}"]

    def block(self) -> list[str]:
        return [
            *self.sums_begin(),
            "for start in range(first, last, positions_a_run):",
            "    stop = min(start + positions_a_run, last)",
            *indented([*self.run_start(), *self.stages(), *self.ends()]),
            *self.sums_end(),
        ]

    def keep(self, name: str, value: str) -> str:
        store = f"store_{self.loops.precision}_{self.slot[name]}"
        return f"{store}({self.local[name]}_run, position - start, {value})"

    def kept(self, name: str) -> str:
        load = f"reload_{self.loops.precision}_{self.slot[name]}"
        return f"{load}({self.local[name]}_run, position - start)"

    def lay(self, name: str, value: str) -> str:
        """Into a scratch buffer, at the element's place."""
        store = f"store_{self.loops.precision}_{self.wide[name]}"
        return f"{store}({name}_run, at + position, {value})"

    def laid(self, name: str) -> str:
        return f"reload_{self.loops.precision}_{self.wide[name]}({name}_run, at + position)"

    def over_elements(self, begin: Sequence[str], inner: Sequence[str], end: Sequence[str] = ()) -> list[str]:
        """The loops over a run's elements."""
        at = ["at = column * pitch - start"] if self.wide else []
        return [
            "for column in range(classes):",
            *indented([*at, *begin]),
            "    for position in range(start, stop):",
            *indented(inner, 8),
            *indented(end),
        ]

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
            if local in self.wide:
                value = self.load(read, f"{local}_class", f"position * {local}_position_step")
                lines += self.over_elements(
                    [f"{local}_class = {self.place(local, read, 'batch', 'class')}"], [self.lay(local, value)]
                )
        return lines

    def outside(self, names: set[str]) -> list[str]:
        """In the loop over classes, before the one over rows."""
        lines = [f"k = {self.real}(column)"] if CLASS in names else []
        for name in sorted(names):
            read, local = self.reads.get(name), self.local[name]
            if read is not None and read.axes == "class":
                lines.append(f"{local} = {self.load(read, f'{local}_address', f'column * {local}_class_step')}")
            if read is not None and read.axes == "element" and local not in self.wide:
                lines.append(f"{local}_class = {self.place(local, read, 'batch', 'class')}")
        if HELD in names and "held" not in self.wide:
            assert self.holder is not None
            result, write, _ = self.outcomes[self.holder]
            lines.append(f"{result}_class = {self.place(result, write, 'batch', 'class')}")
        return lines

    def held_at(self) -> tuple[str, str]:
        """The result that it lies in until that is written, and where."""
        assert self.holder is not None
        result, write, _ = self.outcomes[self.holder]
        return result, "position" if write.is_dense else f"position * {result}_position_step"

    def inside(self, names: set[str]) -> list[str]:
        lines = []
        for name in sorted(names):
            read, local = self.reads.get(name), self.local[name]
            if local in self.wide:
                lines.append(f"{local} = {self.laid(local)}")
            elif name == HELD:
                result, index = self.held_at()
                lines.append(f"held = reload_{self.loops.precision}_{result[1:]}({result}_class, {index})")
            elif read is not None and read.axes == "element":
                index = "position" if read.is_dense else f"position * {local}_position_step"
                lines.append(f"{local} = {self.load(read, f'{local}_class', index)}")
            elif name in self.slot:
                lines.append(f"{local} = {self.kept(name)}")
        return lines

    def stages(self) -> list[str]:
        lines = []
        for place, group in enumerate(self.passes.groups):
            formulas = [stage.formula for stage in group]
            is_held = self.passes.held is not None and place == self.passes.at
            made = self.body([*formulas, self.passes.held] if is_held and self.passes.held is not None else formulas)
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
            begin = [*self.outside(needs | {HELD} if is_held else needs), *made.before]
            if is_held and "held" in self.wide:
                inner.append(self.lay("held", made.results[-1]))
            elif is_held:
                result, index = self.held_at()
                store = f"store_{self.loops.precision}_{result[1:]}"
                inner.append(f"{store}({result}_class, {index}, {made.results[-1]})")
            for stage, value in zip(group, made.results[: len(group)], strict=True):
                before = self.kept(stage.name)
                if stage.how == "max":
                    inner.append(self.keep(stage.name, f"maximum({before}, {value})"))
                elif stage.how == "sum":
                    inner.append(self.keep(stage.name, f"{before} + {value}"))
                else:
                    chosen = f"select({self.local[stage.place]} == k, {value}, {before})"
                    inner.append(self.keep(stage.name, chosen))
            lines += self.over_elements(begin, inner)
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
                    inner.append(f"{name}_sum = add_in_any_order({name}_sum, {value})")
                    end.append(f"{name}_total += {name}_sum")
            lines += [*begin, "for position in range(start, stop):", *indented(inner), *end]
        of_elements = [each for each in self.outcomes if each[2].way in ("element", "class")]
        if of_elements:
            formulas = [outcome.formula for _, _, outcome in of_elements]
            made = self.body(formulas)
            needs = self.needed(formulas)
            begin, inner, end = [*self.outside(needs), *made.before], [*self.inside(needs), *made.lines], []
            for (name, write, outcome), value in zip(of_elements, made.results, strict=True):
                if name in self.wide:
                    inner.append(self.lay(name, value))
                elif outcome.way == "element":
                    begin.append(f"{name}_class = {self.place(name, write, 'batch', 'class')}")
                    index = "position" if write.is_dense else f"position * {name}_position_step"
                    inner.append(self.store(name, write, f"{name}_class", index, value))
                else:
                    begin.append(f"{name}_sum = {self.real}(0.0)")
                    inner.append(f"{name}_sum = add_in_any_order({name}_sum, {value})")
                    end.append(self.add_to_class(name, f"{name}_sum"))
            lines += self.over_elements(begin, inner, end)
            for name, write, _ in of_elements:
                if name in self.wide:
                    start = f"{name}_class = {self.place(name, write, 'batch', 'class')}"
                    index = f"position * {name}_position_step"
                    lines += self.over_elements(
                        [start], [self.store(name, write, f"{name}_class", index, self.laid(name))]
                    )
        return lines
