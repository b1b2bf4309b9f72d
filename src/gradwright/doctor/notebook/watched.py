"""One cell under the doctor's eyes: everything is put on before it, taken off after it, and then it is examined."""

from __future__ import annotations

import contextlib
import importlib
import io
import sys
import tempfile
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gradwright.doctor.examination import examine, judge_journal, source_of
from gradwright.doctor.launch import on_import_of_torch
from gradwright.doctor.notebook.loops import CellLoops
from gradwright.doctor.notebook.magic import Request
from gradwright.doctor.observe.clock import Clock
from gradwright.doctor.observe.guard import is_own_fault
from gradwright.doctor.observe.loops import LoopWatch
from gradwright.doctor.options import Options
from gradwright.doctor.render.shown import ShownReport, shown
from gradwright.doctor.session.journal import Journal, fold
from gradwright.doctor.session.model import DOCTOR_FAILED, MISSING, NotExamined, Subject
from gradwright.doctor.session.place import Location
from gradwright.doctor.source.cell_texts import kept_as, read_cell, with_imports
from gradwright.doctor.source.cells import cell_names, renamed
from gradwright.doctor.source.entered import LoopUse
from gradwright.doctor.source.files import SourceFile
from gradwright.doctor.source.places import home, is_user_file, relative

if TYPE_CHECKING:
    from gradwright.doctor.observe.watch import Watch


class WatchedCell:
    """``info`` is what IPython tells of the cell before it runs."""

    def __init__(self, shell: Any, request: Request, info: Any) -> None:
        self.raw_cell: str = info.raw_cell
        self._shell, self._request = shell, request
        transformed = getattr(info, "transformed_cell", None) or shell.transform_cell(info.raw_cell)
        count = shell.execution_count
        # IPython 9.18 has counted this cell by now, others have not.
        numbers = (count, count - 1)
        self._own = tuple(shell.compile.get_code_name(info.raw_cell, transformed, number) for number in numbers)
        self._clock = clock = Clock()
        self._loops = LoopWatch(clock.saw, clock.share, lambda: clock.gradients, _copy_names)
        self._cell_loops = CellLoops(shell, self._loops, self._own)
        self._stack = ExitStack()
        self._watch: Watch | None = None

    def enter(self) -> None:
        """Put everything on; all of it is off again if any of it can't be."""
        home()
        with ExitStack() as stack:
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="gradwright-"))
            self._journal = stack.enter_context(Journal(Path(folder) / "journal"))
            self._kept = stack.pop_all()
        try:
            self._cell_loops.enter()
            self._stack.callback(self._cell_loops.leave)
            self._stack.callback(on_import_of_torch(self._torch_is_here))
        except BaseException:
            self.give_up()
            raise

    def leave(self) -> None:
        """Take everything off."""
        self._loops.closed = True
        self._stack.close()

    def give_up(self) -> None:
        """The same, and keep nothing."""
        with self._kept:
            self.leave()
        self._cell_loops.forget()

    def _torch_is_here(self) -> None:
        from gradwright.doctor.observe.bound_earlier import bound_earlier_seen, find_bound_functions
        from gradwright.doctor.observe.watch import Watch

        if not self._stack.enter_context(bound_earlier_seen()):
            for cls in find_bound_functions():
                code = getattr(cls.forward, "__code__", None)
                if code is None or not is_user_file(code.co_filename):
                    continue
                name = cls.__qualname__.replace("<locals>.", "")
                what = f"calls of {name} through a name that an earlier cell gave to its apply"
                why = f"this torch has `Function.apply` in C, so they can't be seen: call {name}.apply(...) in the cell"
                self._journal.add(NotExamined(what, why))
        self._watch = self._stack.enter_context(Watch(self._journal, self._clock, whole_script=False))
        self._watch.also(self._loops.facts)
        self._loops.is_compiling = sys.modules["torch"].compiler.is_compiling
        self._loops.try_live = self._try_live
        self._loops.on_look = self._watch.own_look

    def _try_live(self, use: LoopUse, names: dict[str, Any], globals_: dict[str, Any]) -> None:
        from gradwright.doctor.gradient_loops import try_on_live_graph

        try_on_live_graph(use, names, globals_, self._clock.skip)

    # --- afterwards --------------------------------------------------------------------------------------------------

    def examine(self, result: Any) -> bool:
        """Show the report, and keep it under its name. Whether it explains the exception that ended the cell.

        A cell that was no Python is left to IPython's own words.
        """
        error = getattr(result, "error_in_exec", None)
        with self._kept:
            if getattr(result, "error_before_exec", None) is not None:
                return False  # not one statement of it ran
            cells = self._cells()
            path = next(iter(set(self._own) & set(self._shell.compile._filename_map)), self._own[0])
            script = Subject("script", "script", "the cell", Location(relative(path), 1))
            self._journal.add(script)
            evidence = self._died(error, script)
            options = Options(select=self._request.select, ignore=self._request.ignore)
            if not self._request.fix:
                options = replace(options, fix_seconds=0.0)
            try:
                self._examine(options, cells)
            except KeyboardInterrupt:
                self._journal.add(NotExamined(MISSING, "the examination was interrupted"))
                judge_journal(self._journal, options)
            report = shown(renamed(fold(self._journal.path), cell_names(self._shell)))
        self._cell_loops.forget()
        self._show(report)
        return bool(evidence) and any(evidence in finding.evidence for finding in report.findings)

    def _examine(self, options: Options, cells: list[SourceFile]) -> None:
        if self._watch is None:
            self._journal.add(NotExamined("gradients", "torch was not imported when the cell was over"))
            judge_journal(self._journal, options)
            return
        import torch

        from gradwright.checking.chance import chance_held

        # What the user's code prints when it is tried was printed before.
        silent = contextlib.redirect_stdout(io.StringIO())
        with chance_held(), torch.inference_mode(False), torch.enable_grad(), silent, kept_as(cells):
            read = [cell for cell in cells if cell.path in self._used(self._watch)]
            examine(self._journal, options, self._watch, self._loops.uses, read)

    def _cells(self) -> list[SourceFile]:
        """Every cell that ran is a source: a Function of any may be used in this one."""
        for path, why in self._cell_loops.unwatched.items():
            self._journal.add(NotExamined(f"the loops of {relative(path)}", why))
        read = (read_cell(path) for path in cell_names(self._shell))
        cells = [with_imports(cell, self._shell.user_ns) for cell in read if cell is not None]
        self._journal.add(*(source_of(cell) for cell in cells))
        return cells

    def _used(self, watch: Watch) -> set[str]:
        """This cell's file, and those of the Functions and loops that it used."""
        codes = (getattr(function.forward, "__code__", None) for function in watch.functions.uses)
        used = {code.co_filename for code in codes if code is not None}
        return used | set(self._own) | {use.path for use in self._loops.uses if use.entries}

    def _died(self, error: BaseException | None, script: Subject) -> str:
        """The id of the fact that tells of the exception, "" if there is none to tell of."""
        if not isinstance(error, Exception) or self._watch is None:  # Ctrl-C and sys.exit() are meant
            return ""
        if is_own_fault(error):
            self._journal.add(NotExamined(MISSING, f"{DOCTOR_FAILED}: {type(error).__name__}: {error}"))
            return ""
        from gradwright.doctor.observe.errors.death import describe_death

        death, fact = describe_death(error, is_user_file=is_user_file, relative=relative, subject_id=script.id)
        self._journal.script(exception=death)
        self._journal.add(fact)
        return fact.id

    def _show(self, report: ShownReport) -> None:
        self._shell.user_ns[self._request.name] = report
        if self._request.name.startswith("_"):
            self._shell.user_ns_hidden[self._request.name] = report
        display = importlib.import_module("IPython.display").display
        display({"text/plain": str(report), "text/html": report._repr_html_()}, raw=True)


def _copy_names(names: dict[str, Any]) -> dict[str, Any]:
    from gradwright.doctor.observe.specimens import copy_names

    return copy_names(names)
