"""A kernel of rows that takes a row after the other, its classes in the inner loop."""

from __future__ import annotations

from collections.abc import Sequence

from gradwright.kernels.code.row_layout import RowLoops, RowWritten
from gradwright.kernels.code.row_writer import RUN, Writer, indented
from gradwright.kernels.formula.expression import Expression
from gradwright.kernels.formula.row_passes import apart_from_one
from gradwright.kernels.formula.stages import CLASS, HELD, Outcome, Stage


class Along(Writer):
    """A row after the other."""

    def __init__(self, loops: RowLoops) -> None:
        super().__init__(loops)
        varying = {name for name, axes in loops.program.inputs if axes in ("element", "class")} | {CLASS, HELD}
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
        # Of int32 a number is one instruction, of int64 three.
        lines = [f"k = {self.real}(int32(column))"] if CLASS in names else []
        for name in sorted(names):
            read, local = self.reads.get(name), self.local[name]
            if read is not None and read.axes in ("element", "class"):
                start = f"{local}_row" if read.axes == "element" else f"{local}_address"
                index = "column" if read.is_dense else f"column * {local}_class_step"
                lines.append(f"{local} = {self.load(read, start, index)}")
        if HELD in names:
            name, index = self.held_at()
            lines.append(f"held = reload_{self.loops.precision}_{name[1:]}({name}_row, {index})")
        return lines

    def held_at(self) -> tuple[str, str]:
        assert self.holder is not None
        name, write, _ = self.outcomes[self.holder]
        return name, "column" if write.is_dense else f"column * {name}_class_step"

    def stages(self) -> list[str]:
        lines = []
        for place, group in enumerate(self.passes.groups):
            if group[0].how == "row":
                made = self.body([stage.formula for stage in group])
                lines += made.before
                lines += [
                    f"{self.local[stage.name]} = {value}" for stage, value in zip(group, made.results, strict=True)
                ]
                continue
            reduced = [stage for stage in group if stage.how != "at"]
            if reduced:
                lines += self.reduction(reduced, self.passes.held if place == self.passes.at else None)
            for stage in group:
                if stage.how == "at":
                    lines += self.picked(stage)
        return lines

    def reduction(self, group: Sequence[Stage], held: Expression | None) -> list[str]:
        formulas = [*[stage.formula for stage in group], *([held] if held is not None else [])]
        made = self.body(formulas)
        lines = list(made.before)
        inner = [*self.loads(self.needed(formulas)), *made.lines]
        if held is not None:
            name, index = self.held_at()
            inner.append(f"store_{self.loops.precision}_{name[1:]}({name}_row, {index}, {made.results[-1]})")
        begin, run_begin, run_end, end = [], [], [], []
        for stage, value in zip(group, made.results[: len(group)], strict=True):
            local = self.local[stage.name]
            if stage.how == "max":
                ordered = "in_order"
                begin += [f"{local}_least = {ordered}({self.real}(-inf))", f"{local}_most = {local}_least"]
                # Of a run at first: what goes through all of them keeps LLVM from making vector code.
                run_begin.append(f"{local}_run = {local}_least")
                inner.append(f"{local}_run = max({local}_run, {ordered}({value}))")
                run_end.append(f"{local}_most = max({local}_most, {local}_run)")
                end.append(f"{local} = from_order({local}_most)")
            else:
                begin.append(f"{local}_along = 0.0")
                run_begin.append(f"{local}_sum = {self.real}(0.0)")
                inner.append(f"{local}_sum = add_in_any_order({local}_sum, {value})")
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
            chosen: set[str] = set()
            if all(outcome.way == "element" for _, _, outcome in of_elements):
                parted = [apart_from_one(formula, set(self.invariant)) for formula in formulas]
                formulas = [formula for formula, _ in parted]
                chosen = set().union(*[names for _, names in parted])
            before, inner = self.elements(of_elements, formulas)
            lines += [*before, "for column in range(classes):", *indented(inner)]
            # The one class whose formula is another.
            for name in sorted(chosen):
                whole = [self.whole[self.results.index(result)].formula for result, _, _ in of_elements]
                before, inner = self.elements(of_elements, whole)
                lines += [
                    f"if {self.local[name]} >= {self.real}(0.0) and {self.local[name]} < {self.real}(classes):",
                    f"    column = int({self.local[name]})",
                    *indented([*before, *inner]),
                ]
        return lines

    def elements(
        self, outcomes: Sequence[tuple[str, RowWritten, Outcome]], formulas: Sequence[Expression]
    ) -> tuple[list[str], list[str]]:
        """What is done for an element, and before."""
        made = self.body(formulas)
        inner = [*self.loads(self.needed(formulas)), *made.lines]
        for (name, write, outcome), value in zip(outcomes, made.results, strict=True):
            if outcome.way == "element":
                index = "column" if write.is_dense else f"column * {name}_class_step"
                inner.append(self.store(name, write, f"{name}_row", index, value))
            else:
                inner.append(self.add_to_class(name, value))
        return made.before, inner
