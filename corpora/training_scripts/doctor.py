"""The doctor on one script after the other: forks of a process that has torch loaded (tests/zygote.py)."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any

from gradwright.doctor.ends import note_death
from gradwright.doctor.examination import RULE_FAILED, judge_journal
from gradwright.doctor.options import Options
from gradwright.doctor.session.journal import Journal, fold, read_lines
from gradwright.doctor.session.model import Finding, Report

ROOT = Path(__file__).parents[2]
FIX_SECONDS = 10.0  # some faults (a loop over rows) are told by the fix that they have


@dataclass(frozen=True)
class Said:
    """A finding, as a benchmark needs it: where it points, and what it says."""

    code: str
    severity: str
    line: int
    end_line: int
    message: str
    why: str

    @classmethod
    def of(cls, finding: Finding) -> Said:
        at = finding.location
        return cls(finding.code, finding.severity, at.line, max(at.line, at.end_line), finding.message, finding.why)


@dataclass(frozen=True)
class Ran:
    """What the doctor said of a script, and how the script itself fared."""

    said: tuple[Said, ...]
    exit_code: int | None
    seconds: float
    faults_of_ours: tuple[str, ...] = ()
    output: str = field(default="", repr=False)

    def as_answer(self) -> dict[str, Any]:
        """As plain data."""
        return {key: value for key, value in dataclasses.asdict(self).items() if key != "output"}

    @classmethod
    def from_answer(cls, answer: dict[str, Any]) -> Ran:
        said = tuple(Said(**one) for one in answer["said"])
        return cls(said, answer["exit_code"], answer["seconds"], tuple(answer["faults_of_ours"]))

    @classmethod
    def of(cls, report: Report, status: int, failure: str, seconds: float, output: str) -> Ran:
        ours = [
            f"{one.what}: {one.why}"
            for one in report.not_examined
            if one.why.startswith(RULE_FAILED) or " failed on it" in one.why
        ]
        if status > 0 or failure:
            ours.append(f"the doctor ended with {status}: {failure[-400:]}")
        elif report.script.exit_code == 0 and not report.script.gradients:
            ours.append("it saw no gradient call")
        said = tuple(Said.of(finding) for finding in report.findings)
        return cls(said, report.script.exit_code, seconds, tuple(ours), output)


class Doctor:
    """``with Doctor() as doctor: doctor.sees("train.py", text)``. No fix is searched: the question is what is found."""

    def __init__(self, *, seconds: float = 60.0, python: str = sys.executable) -> None:
        self.seconds, self.python = seconds, python

    def __enter__(self) -> Doctor:
        self._folder = tempfile.TemporaryDirectory(prefix="gradwright-scripts-")
        self._zygote = subprocess.Popen(
            [self.python, str(ROOT / "tests" / "zygote.py")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "GRADWRIGHT_CACHE_DIR": str(Path(self._folder.name) / "kernels")},
        )
        self.sees("ready.py", "import torch\n")  # the loading is no script's time
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._zygote.stdin is not None and self._zygote.stdout is not None
        self._zygote.stdin.close()
        self._zygote.wait(20)
        self._zygote.stdout.close()
        self._folder.cleanup()

    def sees(self, name: str, text: str, **options: Any) -> Ran:
        """``text`` run as the file ``name``, to its end."""
        assert self._zygote.stdin is not None and self._zygote.stdout is not None
        with tempfile.TemporaryDirectory(dir=self._folder.name) as folder:
            home = Path(folder)
            (home / name).write_text(text)
            files = {part: home / f"ran.{part}" for part in ("stdout", "stderr", "stdin", "journal")}
            files["stdin"].write_text("")
            asked = Options(**{"target": str(home / name), "to_end": True, "fix_seconds": FIX_SECONDS, **options})
            request = {
                **{part: str(path) for part, path in files.items()},
                "options": asked.to_json(),
                "cwd": folder,
                "seconds": self.seconds,
            }
            started = time.monotonic()
            self._zygote.stdin.write(json.dumps(request) + "\n")
            self._zygote.stdin.flush()
            status = int(self._zygote.stdout.readline())
            seconds = time.monotonic() - started
            if status < 0:  # as conduct does it for a patient that died
                note_death(files["journal"], status)
                with Journal(files["journal"]) as journal:
                    judge_journal(journal, asked)
            output = files["stdout"].read_text() + files["stderr"].read_text()
            return Ran.of(fold(files["journal"]), status, _failure(files["journal"]), seconds, output)


def _failure(journal: Path) -> str:
    """The doctor's own exception, if it died of one."""
    lines, _ = read_lines(journal, 0)
    failed = [line["data"]["detail"] for line in lines if line.get("data", {}).get("stage") == "failed"]
    return failed[-1] if failed else ""
