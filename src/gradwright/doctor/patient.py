"""The script's own process: watch it run, then hand what was seen to the examination.

Nothing here imports torch before the script does.
"""

from __future__ import annotations

import builtins
import contextlib
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gradwright.doctor.ends import BEFORE_A_GRADIENT
from gradwright.doctor.examination import examine, judge_journal, source_of
from gradwright.doctor.launch import Program, find_program, half_imported, on_import_of_torch, run_program
from gradwright.doctor.observe.clock import Clock, StoppedEarly
from gradwright.doctor.observe.guard import guarded, is_own_fault
from gradwright.doctor.observe.loops import LoopWatch
from gradwright.doctor.options import Options
from gradwright.doctor.ranks.stopping import clock_of
from gradwright.doctor.rerun.again import run_again
from gradwright.doctor.rerun.randomness import Randomness
from gradwright.doctor.rerun.trial.tries import Tries
from gradwright.doctor.session.journal import Journal
from gradwright.doctor.session.model import BY_CTRL_C, MISSING, NotExamined, Subject
from gradwright.doctor.session.place import Location
from gradwright.doctor.source.entered import LoopUse, loop_uses
from gradwright.doctor.source.files import SourceFile
from gradwright.doctor.source.imports import WatchedImports, compile_main
from gradwright.doctor.source.loops import LoopSite
from gradwright.doctor.source.places import home, is_user_file, relative, user_frame
from gradwright.doctor.source.transform import HOOK_NAME

if TYPE_CHECKING:
    from gradwright.doctor.observe.watch import Watch

ENOUGH = signal.SIGUSR2 if hasattr(signal, "SIGUSR2") else None


class Patient:
    """One run of one script, and what becomes of it."""

    def __init__(self, options: Options, journal: Journal) -> None:
        self.options, self.journal = options, journal
        self.clock = clock_of(options)
        self.loops = LoopWatch(self.clock.saw, self.clock.share, lambda: self.clock.gradients, _copy_names)
        self.files: dict[str, SourceFile] = {}
        self.watch: Watch | None = None
        self.script = _script_subject(options)
        self._process = os.getpid()
        self._finished = self._interrupted = False
        self._asked = 0
        self._randomness, self._environment = Randomness(), dict(os.environ)

    # --- observe -----------------------------------------------------------------------------------------------------

    def run(self) -> int:
        """Run the script to its end, or to where enough was seen, then examine. Returns the script's exit code."""
        program = find_program(self.options.target, module=self.options.module, arguments=self.options.arguments)
        self.journal.script(argv=program.argv, module=self.options.target if self.options.module else "")
        self.journal.add(self.script)
        with self._watching(program):
            code = run_program(program, self._compile, on_death=self._died)
        if os.getpid() != self._process:
            return code  # a child that the script forked has come to its own end
        self.finish(code)
        return code

    def finish(self, code: int) -> None:
        """The script is over: try its subjects, judge, write it all down. Once only."""
        if self._finished or os.getpid() != self._process:
            return
        self._finished = True
        self.journal.script(
            exit_code=code,
            seconds=time.perf_counter() - self._started - self.clock.skipped,
            stopped_early=self.clock.stopped_early,
        )
        with contextlib.suppress(Exception):
            sys.stdout.flush()
            sys.stderr.flush()
        if half_imported("torch"):  # to import it once more can end this process
            why = BEFORE_A_GRADIENT if self._interrupted else "the script's import of torch was cut short"
            self.journal.add(NotExamined(MISSING, why))
            self.journal.progress("finished")
            return
        try:
            tries = self._run_again()
            examine(self.journal, self.options, self.watch, self.loops.uses, self.files.values(), tries)
        except KeyboardInterrupt:
            self.journal.add(NotExamined(MISSING, "the trying of subjects was interrupted"))
            judge_journal(self.journal, self.options)
        self.journal.progress("finished")

    def _run_again(self) -> Tries | None:
        """Where the loss was not finite: a second run finds where that begins. No trouble of its is the patient's."""
        seconds = time.perf_counter() - self._started
        try:
            return run_again(self.journal, self.options, seconds, self._randomness, self._environment)
        except Exception as error:
            self.journal.add(NotExamined("where NaN or inf begins", f"the second run failed: {error}"))
            return None

    @contextlib.contextmanager
    def _watching(self, program: Program) -> Iterator[None]:
        setattr(builtins, HOOK_NAME, self.loops)
        real_exit = os._exit

        def exit_at_once(code: int) -> None:
            if os.getpid() == self._process:
                self._unwatch()
                self.finish(code)
            real_exit(code)

        os._exit = exit_at_once  # type: ignore[assignment]  # same behaviour, after our own work
        before = None
        if ENOUGH is not None and threading.current_thread() is threading.main_thread():
            before = signal.signal(ENOUGH, self._enough)
        imports = WatchedImports(program.roots, self._read, self._unread)
        imports.install()
        stop_waiting = on_import_of_torch(self._torch_is_here)
        stop_recording = self._randomness.record_numpy()
        self._started = self.clock.began = time.perf_counter()
        try:
            yield
        finally:
            if os.getpid() == self._process:
                stop_waiting()
                stop_recording()
                imports.remove()
                if before is not None and ENOUGH is not None:
                    signal.signal(ENOUGH, signal.SIG_IGN)
                os._exit = real_exit
                self._unwatch()

    def _unwatch(self) -> None:
        self.loops.closed = True
        if self.watch is not None:
            self.watch.__exit__(None, None, None)

    def _torch_is_here(self) -> None:
        """We stand in the script's own import of torch: what fails here must not become the script's."""
        guarded(self._watch_torch, self._failed)()

    def _watch_torch(self) -> None:
        from gradwright.doctor.observe.watch import Watch

        self.watch = Watch(self.journal, self.clock, self.options.specimen_bytes).__enter__()
        self.watch.also(self.loops.facts)
        self.loops.is_compiling = sys.modules["torch"].compiler.is_compiling
        self.loops.try_live = _try_live(self.clock)
        self.loops.on_look = self.watch.own_look

    def _failed(self, text: str) -> None:
        """The watching failed, as a whole. What the text of the script says is still judged."""
        self.journal.progress("failed", text)

    def _enough(self, number: int, frame: object) -> None:
        """Our conductor says that time is up. A script that swallows the interruption twice is ended from here."""
        if os.getpid() != self._process:
            return
        self._asked += 1
        if self.watch is not None:
            self.watch.flush()
        if self._asked <= 2:
            self.clock.stop(f"its time was up{self._where()}", always=True)
        self.clock.stopped_early = f"its time was up{self._where()}, and it did not stop when asked"
        os._exit(0)

    def _where(self) -> str:
        """Of one of several ranks: at which line each was tells who waited for whom."""
        frame = user_frame(3) if self.options.meeting else None
        return f", at {relative(frame.f_code.co_filename)}:{frame.f_lineno}" if frame is not None else ""

    def _compile(self, path: str) -> Any:
        return compile_main(path, self._read, self._unread)

    def _read(self, file: SourceFile, sites: tuple[LoopSite, ...]) -> int:
        """A file of the user's is about to run: remember it and its loops; the number of its first loop."""
        self.files[file.path] = file
        self.journal.add(source_of(file))
        return self.loops.add(loop_uses(file, sites))

    def _unread(self, path: str, reason: str) -> None:
        self.journal.add(NotExamined(f"the loops of {relative(path)}", reason))

    def _died(self, error: BaseException) -> None:
        """The script ended with an exception: say of which, unless it was us who ended it."""
        if isinstance(error, StoppedEarly):
            return
        if isinstance(error, KeyboardInterrupt):
            self.clock.stopped_early, self._interrupted = BY_CTRL_C, True
        if is_own_fault(error):
            self._failed("".join(traceback.format_exception(error)))
            return
        if half_imported("torch"):  # of which telling of a death makes use
            return
        from gradwright.doctor.observe.errors.death import describe_death

        death, fact = describe_death(error, is_user_file=is_user_file, relative=relative, subject_id=self.script.id)
        self.journal.script(exception=death)
        if not isinstance(error, KeyboardInterrupt):
            self.journal.add(fact)


def _script_subject(options: Options) -> Subject:
    """Asked before the script can change directory."""
    path = relative(find_program(options.target, module=options.module, arguments=()).path)
    return Subject(id="script", kind="script", name=Path(path).name, location=Location(path, 1))


def _copy_names(names: dict[str, Any]) -> dict[str, Any]:
    from gradwright.doctor.observe.specimens import copy_names

    return copy_names(names)


def _try_live(clock: Clock) -> Callable[[LoopUse, dict[str, Any], dict[str, Any]], None]:
    def try_live(use: LoopUse, names: dict[str, Any], globals_: dict[str, Any]) -> None:
        from gradwright.doctor.gradient_loops import try_on_live_graph

        try_on_live_graph(use, names, globals_, clock.skip)

    return try_live


# --- doors -----------------------------------------------------------------------------------------------------------


def main(journal_path: str, options_json: str, only_judge: bool = False) -> int:
    """The patient process. Its exit code is 0 if the doctor did its work, whatever became of the script."""
    home()
    journal = Journal(Path(journal_path))
    options = Options.from_json(options_json)
    try:
        if only_judge:
            judge_journal(journal, options)
        else:
            patient = Patient(options, journal)
            code = patient.run()
            if os.getpid() != journal.owner:
                return code
    except BaseException:
        if os.getpid() != journal.owner:
            raise
        journal.progress("failed", traceback.format_exc())
        raise
    return 0
