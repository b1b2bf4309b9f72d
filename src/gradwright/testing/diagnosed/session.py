"""pytest's hooks: watch from before the first conftest.py to the last test, then examine, tell, set the exit status.

A fault of ours is told in the summary and changes neither a test's result nor the exit status. Under pytest-xdist every
worker watches and examines its own tests, and hands its report to the controller, which merges them.
"""

from __future__ import annotations

import dataclasses
import os
import tempfile
import traceback
import warnings
from collections.abc import Callable, Generator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import gradwright
from gradwright.doctor import settings
from gradwright.doctor.commands.apart import may_become_session
from gradwright.doctor.conduct import save
from gradwright.doctor.launch import on_import_of_torch
from gradwright.doctor.session.codec import from_json, to_json
from gradwright.doctor.session.journal import Journal
from gradwright.doctor.session.model import MISSING, NotExamined, Report
from gradwright.doctor.source.places import home
from gradwright.errors import UsageError
from gradwright.testing.diagnosed.merged import merged
from gradwright.testing.diagnosed.own import makes_red
from gradwright.testing.diagnosed.progress import TellingJournal, progress_of
from gradwright.testing.diagnosed.record import TestRecord
from gradwright.testing.diagnosed.told import callers, of_fixes, verdict

if TYPE_CHECKING:
    from gradwright.doctor.observe.specimens import SpecimenStore
    from gradwright.testing.diagnosed.watched import FunctionsOfTests

_KEY = "gradwright"  # in a worker's output
_TRIED_AFTER = (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED, pytest.ExitCode.NO_TESTS_COLLECTED)
# Of this process: a session that runs inside of a test (pytester) is not watched a second time.
_watching: list[DiagnosedSession] = []


class DiagnosedSession:
    """One pytest session in one process: the whole of it, an xdist worker's part, or its controller's merging."""

    def __init__(self, config: pytest.Config, given: Any) -> None:
        self._config = config
        self._process, self._home = os.getpid(), home()
        try:
            self._settings = settings.load(config.rootpath).overridden_by(
                {
                    "select": given.gradwright_select,
                    "ignore": given.gradwright_ignore,
                    "probe_seconds": given.gradwright_seconds,
                    "session": Path(given.gradwright_session) if given.gradwright_session else None,
                }
            )
            if self._settings.session != settings.Settings().session:  # somebody's own choice
                may_become_session(Path(self._home) / self._settings.session)
        except UsageError as error:
            raise pytest.UsageError(str(error)) from None
        self._exit_zero = bool(given.gradwright_exit_zero)
        self._forked = bool(getattr(given, "forked", False))
        self._record = TestRecord()
        self._functions: FunctionsOfTests | None = None
        self._store: SpecimenStore | None = None
        self._faults: list[str] = []
        self._of_workers: dict[str, Report] = {}
        self._lost: list[NotExamined] = []
        self._report: Report | None = None
        self._green = self._made_red = self._broke_off = False
        self._kept_in = ""
        self._nested = bool(_watching)
        self._stop_waiting: Callable[[], None] = lambda: None
        if not self._nested:
            _watching.append(self)
            self._stop_waiting = on_import_of_torch(self._torch_is_here)

    # --- while the tests run -----------------------------------------------------------------------------------------

    def _torch_is_here(self) -> None:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of our own imports
                from gradwright.doctor.observe.specimens import SpecimenStore
                from gradwright.testing.diagnosed.watched import FunctionsOfTests

            self._store = SpecimenStore(self._settings.specimen_mib << 20)
            self._functions = FunctionsOfTests(self._record, self._store, self._failed)
            self._functions.install()
        except Exception:
            self._failed(traceback.format_exc())

    def _failed(self, text: str) -> None:
        if not self._faults:
            self._faults.append(text)

    def pytest_report_header(self) -> str:
        return f"gradwright: {gradwright.__version__}, the custom Functions that tests call are tried after them"

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, Any, Any]:
        self._record.began(item.nodeid, left_out=item.get_closest_marker("no_gradwright") is not None)
        try:
            return (yield)
        finally:
            try:
                raised = self._record.ended()
                if raised and self._functions is not None:
                    self._functions.withdraw(raised)
            except Exception:
                self._failed(traceback.format_exc())

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        report = yield
        if report.failed and self._record.current is not None:
            self._record.current.failed = True
        return report

    # --- after them --------------------------------------------------------------------------------------------------

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        if os.getpid() != self._process or self._nested:
            return
        self._take_off()
        worker = hasattr(self._config, "workerinput")
        try:
            report = self._all_workers() if self._is_controller() else self._examined(exitstatus)
            if worker:
                self._config.workeroutput[_KEY] = to_json(report)  # type: ignore[attr-defined]  # xdist's
                return
            self._report = report
            self._keep(report)
        except Exception:
            self._failed(traceback.format_exc())
            if worker:
                failed = NotExamined("what this worker saw", "the doctor itself failed:\n" + self._faults[0])
                self._config.workeroutput[_KEY] = to_json(Report(not_examined=(failed,)))  # type: ignore[attr-defined]  # the same
            return
        self._green = exitstatus == pytest.ExitCode.OK and not self._broke_off
        if self._green and not self._exit_zero and makes_red(report, self._config.rootpath):
            self._made_red = True
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def _take_off(self) -> None:
        self._stop_waiting()
        if self._functions is not None:
            self._functions.remove()
        if self in _watching:
            _watching.remove(self)

    def pytest_unconfigure(self) -> None:
        self._take_off()

    def _examined(self, exitstatus: int) -> Report:
        if self._functions is None or self._store is None:
            why = "the session never imported torch" if not self._faults else "the watching could not begin"
            return Report(not_examined=(NotExamined("custom Functions", why),))
        from gradwright.testing.diagnosed.examined import Examination

        options = self._settings.options("pytest", False, ())
        with tempfile.TemporaryDirectory(prefix="gradwright-") as folder, self._journal(folder) as journal:
            examination = Examination(journal, options, self._record, self._store, self._functions)
            examination.written()
            self._say_what_was_not_seen(journal)
            try:
                if exitstatus in _TRIED_AFTER:
                    examination.tried()
                else:
                    examination.untried("the session was interrupted, so it was not tried")
            except KeyboardInterrupt:
                journal.add(NotExamined(MISSING, "the trying of Functions was interrupted"))
                examination.judged()
            except Exception:
                self._broke_off = True
                self._failed(traceback.format_exc())
                journal.add(NotExamined(MISSING, "the doctor itself failed"))
            return examination.report()

    def _journal(self, folder: str) -> Journal:
        terminal = self._config.pluginmanager.getplugin("terminalreporter")
        return TellingJournal(Path(folder) / "journal", progress_of(terminal))

    def _say_what_was_not_seen(self, journal: Journal) -> None:
        if self._forked:
            journal.add(NotExamined("what tests do in forked processes", "only this process is watched (--forked)"))
        if self._faults:
            last = self._faults[0].strip().splitlines()[-1]
            journal.add(NotExamined("part of what the tests did", f"the watching failed on it: {last}"))

    def _keep(self, report: Report) -> None:
        path = Path(self._home) / self._settings.session
        try:
            save(report, path)
            self._kept_in = str(self._settings.session)
        except OSError as error:
            self._kept_in = f"no file: {path} can't be written ({error})"

    # --- pytest-xdist ------------------------------------------------------------------------------------------------

    def _is_controller(self) -> bool:
        return self._config.pluginmanager.hasplugin("dsession")

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any, error: object) -> None:
        """A worker has ended, well or not."""
        worker, text = str(node.gateway.id), getattr(node, "workeroutput", {}).get(_KEY)
        if text is None:
            self._lost.append(NotExamined(f"what worker {worker} saw", "it ended before it could tell"))
            return
        try:
            self._of_workers[worker] = from_json(text)
        except Exception:
            self._failed(traceback.format_exc())

    def _all_workers(self) -> Report:
        report = merged(dict(sorted(self._of_workers.items())))
        return dataclasses.replace(report, not_examined=(*report.not_examined, *self._lost))

    # --- what is told ------------------------------------------------------------------------------------------------

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        terminalreporter.section("gradwright", sep="=")
        if self._nested:
            terminalreporter.write_line("not watched: this session runs inside of one that is")
        try:
            if self._report is not None:
                self._tell(terminalreporter, self._report)
        except Exception:
            self._failed(traceback.format_exc())
        for fault in self._faults[:1]:
            terminalreporter.write_line(f"the doctor itself failed; please report this (no test was changed):\n{fault}")

    def _tell(self, terminal: Any, report: Report) -> None:
        from gradwright.doctor.render import render

        writer = terminal._tw
        terminal.write(render(report, "terminal", width=writer.fullwidth, color=writer.hasmarkup))
        for line in callers(report):
            terminal.write_line(line)
        how = of_fixes(report)
        if how:
            terminal.write_line(how)
        terminal.write_line(verdict(report, made_red=self._made_red, green=self._green, session=self._kept_in))
