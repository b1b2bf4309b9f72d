"""Has a file graded in a process of its own, and survives whatever that file does. No torch.

The process writes a journal, a line of JSON at a time: what it is at (``now``), then the ``outcome``, or the traceback
of a ``crash`` of the grader. A process that ends without either was ended by the learner's file.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from gradwright.errors import GradwrightError
from gradwright.exercises.catalog import Exercise
from gradwright.exercises.outcome import Failure, Outcome, Step

SECONDS = 20.0  # for one call of the learner's code, and for its file to run
# torch takes seconds to load, each exercise has some dozens of calls, and the process says itself what does not end:
# this is for one that does not even let it speak.
_ALL_TOGETHER = 240.0
# The folder's own random.py or torch.py are none of the grader's; a warning is no exception here.
_PYTHON = ("-P", "-W", "default::UserWarning")


def graded(exercise: Exercise, file: Path, *, seconds: float = SECONDS, seed: int | None = None) -> Outcome:
    """What is right in ``file`` and what is not. Its prints go where ours go.

    Raises: GradwrightError, if the grader itself failed.
    """
    with tempfile.TemporaryDirectory(prefix="gradwright-") as folder:
        journal = Path(folder) / "journal"
        command = [sys.executable, *_PYTHON, "-m", "gradwright.exercises.grade", str(exercise.number), str(file),
                   "--journal", str(journal), "--seconds", str(seconds)]  # fmt: skip
        command += [] if seed is None else ["--seed", str(seed)]
        sys.stdout.flush()
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL)
        try:
            status = process.wait(_ALL_TOGETHER + seconds)
        except subprocess.TimeoutExpired:
            status = None
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()
        said = _said(journal)
    if "crash" in said:
        raise GradwrightError(f"the grader itself failed; please report this:\n{said['crash']}")
    if "outcome" in said:
        return Outcome.from_data(said["outcome"])
    if "now" not in said:
        raise GradwrightError(f"the grader did not start: its process {_ended(status)}")
    return _cut_off(said["now"], status)


def _said(journal: Path) -> dict[str, Any]:
    said: dict[str, Any] = {}
    try:
        lines = journal.read_text(encoding="utf-8").splitlines()
    except OSError:
        return said
    for line in lines:
        try:
            said |= json.loads(line)
        except ValueError:  # cut off
            break
    return said


def _cut_off(now: str, status: int | None) -> Outcome:
    if status is None:
        what, why = "it does not end", f"during: {now}; one long call out of Python holds it"
        do = "look for a loop without an end, or for an input far too large"
    else:
        what = f"it ended the process that grades it, which {_ended(status)}"
        why = f"during: {now}"
        do = "take out os._exit(), or what makes Python crash there"
    return Outcome((Step(now, False),), Failure(what, why=why, do=do))


def _ended(status: int | None) -> str:
    """
    >>> _ended(3), _ended(-9), _ended(None)
    ('exited 3', 'was ended by SIGKILL', 'did not end')
    """
    if status is None:
        return "did not end"
    if status >= 0:
        return f"exited {status}"
    try:
        return f"was ended by {signal.Signals(-status).name}"
    except ValueError:
        return f"was ended by signal {-status}"
