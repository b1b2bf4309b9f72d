"""The warm interpreter: a process of the doctor's is a fork of the zygote, and looks like one of its own."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.warm import OURS

BEGIN = OURS + "options import Options; import os, signal; "


@pytest.fixture
def started(warm_python: Path, tmp_path: Path) -> Callable[..., subprocess.Popen[str]]:
    """A process by the warm interpreter: ``started(command, *words, **environment)``."""

    def start(command: str, *words: str, **environment: str) -> subprocess.Popen[str]:
        pipe = subprocess.PIPE
        return subprocess.Popen(
            [warm_python, "-c", command, *words],
            stdin=pipe,
            stdout=pipe,
            stderr=pipe,
            text=True,
            cwd=tmp_path,
            env={**os.environ, **environment},
        )

    return start


def test_it_is_loaded_and_has_the_words_folder_environment_and_streams_of_its_own(started: Callable, tmp_path: Path):
    told = "print(['torch' in sys.modules, sys.argv, os.getcwd(), os.environ['MINE'], sys.stdin.read()])"
    out, err = started(BEGIN + told, "one", "two words", MINE="yes").communicate("typed")
    assert (out, err) == (f"{[True, ['-c', 'one', 'two words'], str(tmp_path), 'yes', 'typed']}\n", "")


@pytest.mark.parametrize(
    ("ending", "status", "said"),
    [
        ("pass", 0, ""),
        ("sys.exit(3)", 3, ""),
        ("1 / 0", 1, "ZeroDivisionError"),
        ("os.kill(os.getpid(), signal.SIGKILL)", -signal.SIGKILL, ""),
        ("os.kill(os.getpid(), signal.SIGSEGV)", -signal.SIGSEGV, ""),
    ],
)
def test_it_ends_as_its_fork_ends(ending: str, status: int, said: str, started: Callable) -> None:
    process = started(BEGIN + ending)
    assert said in process.communicate()[1]
    assert process.returncode == status


def test_the_patient_of_the_command_line_is_a_fork(gradwright: Callable, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("import sys\nprint('torch' in sys.modules, file=sys.stderr)\n")
    assert gradwright("diagnose", "train.py", cwd=tmp_path).stderr.splitlines()[1] == "True"


def test_a_signal_reaches_the_fork(started: Callable) -> None:
    wait = "signal.signal(signal.SIGUSR2, lambda *_: sys.exit(7)); print('ready', flush=True); signal.pause()"
    process = started(BEGIN + wait)
    assert process.stdout.readline() == "ready\n"
    process.send_signal(signal.SIGUSR2)
    process.communicate()
    assert process.returncode == 7


def test_the_fork_does_not_outlive_it(started: Callable) -> None:
    process = started(BEGIN + "print(os.getpid(), flush=True); signal.pause()")
    fork = int(process.stdout.readline())
    process.kill()
    process.communicate(timeout=600)  # the fork has its standard output: this ends when both have

    assert not Path(f"/proc/{fork}").exists() or "Z" in Path(f"/proc/{fork}/stat").read_text().split()[2]


def test_anything_else_is_pythons(started: Callable) -> None:
    out, _ = started("import sys; print(sys.executable, 'torch' in sys.modules)").communicate()
    assert out == f"{sys.executable} False\n"
