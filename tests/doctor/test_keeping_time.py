"""When an examination is ended from outside: not while it still writes down what it finds, however slow the machine."""

import time

import pytest

from gradwright.doctor.conduct import _keep_time, _note, _Signs
from gradwright.doctor.options import Options

LIMIT = 25.0 + 60.0 + 60.0  # of trying, of fixes, and a minute


class Patient:
    killed = False

    def kill(self) -> None:
        self.killed = True


@pytest.mark.parametrize(("silent_for", "killed"), [(LIMIT - 5, False), (LIMIT + 500, True)])
def test_only_silence_ends_an_examination(monkeypatch: pytest.MonkeyPatch, silent_for: float, killed: bool) -> None:
    now, patient, signs = 1000.0, Patient(), _Signs()
    options = Options(target="train.py", probe_seconds=25.0, fix_seconds=60.0, rerun="never")
    monkeypatch.setattr(time, "monotonic", lambda: now)
    _note([{"part": "script", "data": {"exit_code": 0}}], signs)
    now += LIMIT + 300  # a busy machine: it has taken twice its time, and goes on telling
    _note([{"part": "fact", "data": {}}], signs)
    now += silent_for
    _keep_time(patient, options, signs, 900.0, None)
    assert patient.killed is killed
