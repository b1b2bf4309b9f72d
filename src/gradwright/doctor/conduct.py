"""Start the patient, show progress, survive its death, fold the journal into the session.

No torch here: whatever happens to the patient, this process is still there to tell what was known.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

from gradwright.doctor.ends import note_death, with_end, with_interruption
from gradwright.doctor.options import Options, rerun_seconds
from gradwright.doctor.progress import ProgressLine
from gradwright.doctor.ranks.company import Company
from gradwright.doctor.session.codec import to_json
from gradwright.doctor.session.journal import fold, read_lines
from gradwright.doctor.session.model import BY_CTRL_C, Report
from gradwright.doctor.session.storing import store

_START = (
    # Ctrl-C while this is loaded ends the process without a traceback of ours; Python's own way comes with main().
    "import signal; ours = signal.getsignal(signal.SIGINT); "
    "ours is signal.default_int_handler and signal.signal(signal.SIGINT, signal.SIG_DFL); "
    "import sys; sys.path.pop(0); from gradwright.doctor.patient import main; signal.signal(signal.SIGINT, ours); "
    "del signal, ours; "
    "sys.exit(main(sys.argv[1], sys.argv[2], only_judge=len(sys.argv) > 3))"
)
_POLL_SECONDS = 0.05
# A script that computes no gradient is stopped after this many times max_seconds.
_WITHOUT_GRADIENT = 10
# The polite signal comes three times (a script may swallow it; the third time it is ended where it stands). After the
# grace the patient is killed, and its journal speaks for it.
_TIMES_ASKED, _ASK_AGAIN_SECONDS, _GRACE_SECONDS = 3, 3.0, 15.0


@dataclass(frozen=True)
class Conducted:
    """The report, whether the doctor (not the script) failed on the way, and where the session is kept."""

    report: Report
    failure: str | None = None
    kept: Path | None = None


@dataclass
class _Signs:
    """Signs of life that the journal has shown so far."""

    stage: str = "starting"
    detail: str = ""
    first_gradient: float | None = None
    examining_since: float | None = None
    heard_at: float = 0.0
    failure: str | None = None
    polite_at: float | None = None
    asked: int = 0
    interrupted_at: float | None = None
    seen: int = 0


def conduct(
    options: Options, *, script_stdout: int | None, progress: TextIO, company: Company | None = None
) -> Conducted:
    """Run the patient to its end. ``script_stdout``: the file descriptor that the script's standard output goes to
    (``None``: our own); ``company``: the other ranks. Cost: the script's own time, then at most about
    ``probe_seconds + fix_seconds`` of an idle machine."""
    with _journal_file() as journal:
        command = start_command(journal, options)
        command_line = " ".join((("-m " if options.module else "") + options.target, *options.arguments))
        bound = f"until {options.max_steps} steps or {options.max_seconds:g} s of gradients were seen"
        progress.write(f"gradwright: running {command_line} for real, {'to its end' if options.to_end else bound}\n")
        progress.flush()
        started = time.monotonic()
        process = subprocess.Popen(command, stdout=script_stdout)
        signs = _Signs()
        status = _attend(process, journal, options, signs, progress, company)
        seconds = time.monotonic() - started
        ended = signs.stage in ("finished", "failed")
        if not ended:
            unasked = signs.polite_at is None and signs.interrupted_at is None
            if status < 0 and signs.examining_since is None and unasked:
                note_death(journal, status)
            _judge_the_dead(command)
        interrupted, killed = signs.interrupted_at is not None, signs.polite_at is not None
        report = fold(journal)
        if report.script.exit_code is None or not ended:
            report = with_end(report, status, seconds, interrupted=interrupted, killed=killed)
        if interrupted or report.script.stopped_early == BY_CTRL_C:
            report = with_interruption(report)
        return Conducted(report, signs.failure)


def start_command(journal: Path, options: Options) -> list[str]:
    """What starts a patient that writes to ``journal``."""
    return [sys.executable, "-c", _START, str(journal), options.to_json()]


def _attend(
    process: subprocess.Popen[bytes],
    journal: Path,
    options: Options,
    signs: _Signs,
    progress: TextIO,
    company: Company | None,
) -> int:
    """Wait for the patient, with one eye on the journal and one on the clock. Its exit status."""
    offset, interrupts, line = 0, 0, ProgressLine(progress)
    started = time.monotonic()
    while True:
        try:
            status = process.poll()
            lines, offset = read_lines(journal, offset)
            _note(lines, signs)
            if status is not None:
                line.clear()
                return status
            if signs.stage != "finished":
                line.show(f"{signs.stage} {signs.detail}", time.monotonic() - started)
            _keep_time(process, options, signs, started, company)
            if company is not None and _hears_nothing(process, signs, company, signs_of_life=bool(lines)):
                _ask(process, signs)
            time.sleep(_POLL_SECONDS)
        except KeyboardInterrupt:
            # The terminal sent it to the script as well: it ends as it would have, and what is known is told.
            interrupts += 1
            signs.interrupted_at = signs.interrupted_at or time.monotonic()
            line.clear()
            if interrupts == 1:
                progress.write("gradwright: interrupted; the report follows (Ctrl-C again: without trying anything)\n")
            else:
                process.kill()


def _note(lines: list[dict[str, Any]], signs: _Signs) -> None:
    for line in lines:
        signs.heard_at = time.monotonic()
        data = line.get("data", {})
        if line.get("part") == "script" and data.get("gradients"):
            signs.first_gradient = signs.first_gradient or time.monotonic()
            signs.seen = data.get("steps") or data["gradients"]
        if line.get("part") == "script" and "exit_code" in data:
            signs.examining_since = time.monotonic()
        if line.get("part") == "progress":
            signs.stage, signs.detail = data["stage"], data["detail"]
            if signs.stage == "watching" and data["done"]:
                signs.detail = f"{data['detail']}, {data['done']} gradient calls"
            if signs.stage == "trying" and data["total"]:
                signs.detail = f"{data['detail']} ({data['done'] + 1} of {data['total']})"
            if signs.stage == "failed":
                signs.failure = data["detail"]


def _hears_nothing(process: subprocess.Popen[bytes], signs: _Signs, company: Company, *, signs_of_life: bool) -> bool:
    """Whether this rank waits for one that has gone, and was not asked to stop yet."""
    if company.out_of_time(signs.interrupted_at):
        process.kill()
    if signs.examining_since is not None:
        company.script_is_over()
        return False
    return signs.polite_at is None and company.is_stuck(process.pid, signs_of_life)


def _ask(process: subprocess.Popen[bytes], signs: _Signs) -> None:
    signs.polite_at = signs.polite_at or time.monotonic()
    signs.asked += 1
    process.send_signal(getattr(signal, "SIGUSR2", signal.SIGTERM))


def _keep_time(
    process: subprocess.Popen[bytes], options: Options, signs: _Signs, started: float, company: Company | None
) -> None:
    now = time.monotonic()
    if signs.examining_since is not None:
        again = rerun_seconds(options, signs.examining_since - started)
        # It keeps its own limits, in seconds of an idle machine: what is killed has been silent for as long as that.
        if now > signs.heard_at + options.probe_seconds + options.fix_seconds + again + 60:
            process.kill()
        return
    if signs.polite_at is not None:
        grace = _GRACE_SECONDS
        if company is not None and company.may_be_freed():
            grace += options.probe_seconds + options.fix_seconds + 60
        if now > signs.polite_at + grace:
            process.kill()
        elif signs.asked < _TIMES_ASKED and now > signs.polite_at + signs.asked * _ASK_AGAIN_SECONDS:
            _ask(process, signs)
        return
    if options.to_end:
        return
    slack = 1.0 if company is None else company.slack(options, signs.seen)
    late = (
        now > signs.first_gradient + options.max_seconds + slack
        if signs.first_gradient is not None
        else now > started + _WITHOUT_GRADIENT * options.max_seconds
    )
    if late:
        _ask(process, signs)


def _judge_the_dead(command: list[str]) -> None:
    """The patient died before it could judge: its facts still can be."""
    with contextlib.suppress(subprocess.SubprocessError, OSError):
        subprocess.run([*command, "only judge"], timeout=60, stdout=subprocess.DEVNULL, stdin=subprocess.DEVNULL)


@contextlib.contextmanager
def _journal_file() -> Iterator[Path]:
    """A journal of this run's own; removed once it is folded, kept when folding it fails."""
    handle, name = tempfile.mkstemp(prefix="gradwright-", suffix=".jsonl")
    os.close(handle)
    path = Path(name)
    try:
        yield path
    except BaseException:
        sys.stderr.write(f"gradwright: what was known so far is in {path}\n")
        raise
    path.unlink()


def save(report: Report, path: Path) -> None:
    """Write the session beside its place, then move it over: a full disk or a kill leaves the old one whole."""
    store(to_json(report).encode("utf-8"), path)
