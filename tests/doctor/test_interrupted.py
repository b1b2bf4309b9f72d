"""Ctrl-C before a gradient was seen: it is said, and it is no clean bill."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.doctor.render.conftest import Maker

from gradwright.doctor.ends import BEFORE_A_GRADIENT, with_end, with_interruption
from gradwright.doctor.render import render
from gradwright.doctor.session.model import MISSING, NotExamined, Report, Script

BOTH = """\
import os, signal, time
os.kill(os.getppid(), signal.SIGINT)  # what Ctrl-C sends to all that run in the terminal
time.sleep(0.3)
os.kill(os.getpid(), signal.SIGINT)
time.sleep(60)
"""


def test_an_interruption_before_the_first_gradient_is_no_clean_bill(gradwright: Callable, tmp_path: Path):
    (tmp_path / "train.py").write_text(BOTH)
    called = gradwright("diagnose", "train.py", cwd=tmp_path, cold=True)
    assert called.code == 3
    shown = " ".join(called.stdout.split())
    assert "was interrupted by Ctrl-C" in shown
    assert "nothing was judged: the run was cut short before a gradient was seen" in shown
    assert "nothing wrong was found" not in called.stdout
    assert "the doctor itself failed" not in called.stderr
    assert gradwright("report", cwd=tmp_path).code == 3  # the session that is kept is no cleaner
    assert gradwright("diagnose", "--exit-zero", "train.py", cwd=tmp_path, cold=True).code == 3


def test_a_half_imported_torch_is_left_alone(gradwright: Callable, tmp_path: Path):
    """Imported once more, the real one ends the process."""
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch" / "part.py").write_text("")
    begun = "import torch.part\nprint('begun')\nraise KeyboardInterrupt\n"
    (tmp_path / "torch" / "__init__.py").write_text(begun)
    (tmp_path / "train.py").write_text("import torch\n")
    called = gradwright("diagnose", "train.py", cwd=tmp_path, cold=True)
    assert called.code == 3
    assert called.stderr.count("begun") == 1
    assert "the doctor itself failed" not in called.stderr
    assert called.session is not None and NotExamined(MISSING, BEFORE_A_GRADIENT) in called.session.not_examined


@pytest.mark.parametrize("argv", [(), ("train.py",)])
def test_a_patient_that_the_interruption_ended_says_so(argv: tuple[str, ...]):
    report = with_interruption(with_end(Report(script=Script(argv=argv)), -2, 0.1, interrupted=True, killed=False))
    assert report.saw_nothing
    text = render(report, "terminal")
    assert "nothing was judged" in text and "no rule explains" not in text and "SIGINT" not in text


def test_what_was_watched_before_the_interruption_counts():
    report = Maker().first_sight()
    assert with_interruption(report) is report
    assert not report.saw_nothing
    assert not Report(not_examined=(NotExamined(MISSING, "x"),)).saw_nothing  # `gw.diagnose`: no script, no run
