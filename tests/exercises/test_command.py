"""``gradwright exercise``: its ways through, and the process in which an answer is graded."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from gradwright.doctor.cli import main
from gradwright.errors import GradwrightError
from gradwright.exercises import start
from gradwright.exercises.catalog import Exercise, all_exercises, exercise_of
from gradwright.exercises.grading.judge import judge
from gradwright.exercises.outcome import Outcome

FILE = "exercise_05_huber.py"
RIGHT = exercise_of(5).solution


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def call(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    """The command, which grades in this very process."""

    def graded(exercise: Exercise, file: Path, *, seconds: float, seed: int | None) -> Outcome:
        return judge(exercise, file, seed=7 if seed is None else seed, timed=False)

    monkeypatch.setattr(start, "graded", graded)

    def called(*words: str) -> Result:
        found = CliRunner().invoke(main, ("exercise", *words), prog_name="gradwright", catch_exceptions=False)
        assert "Traceback" not in found.output
        return found

    return called


def test_an_exercise_from_its_beginning_to_its_end(call, folder: Path) -> None:
    begun = call("5")
    assert begun.exit_code == 0 and f"{FILE} is begun" in begun.stdout and "delta · (|e| - delta / 2)" in begun.stdout
    assert (folder / FILE).read_text() == exercise_of(5).stub
    stub = call("5")
    assert stub.exit_code == 1 and "this is still the stub" in stub.stdout and "--hint gives a hint" in stub.stdout
    assert [call("5", "--hint").stdout.partition("\n")[0] for _ in range(4)] == [
        "hint 1 of 3", "hint 2 of 3", "hint 3 of 3", "hint 3 of 3",
    ]  # fmt: skip
    assert "that was the last hint" in call("5", "--hint").stdout
    assert call("5", "--solution").stdout == RIGHT
    (folder / FILE).write_text(RIGHT)
    right = call("5")
    assert right.exit_code == 0 and right.stdout.endswith("\npassed\n")
    assert "gw.check: 15 checks; 8 inputs" in right.stdout
    assert "A Huber loss                                    10 min  passed" in call().stdout
    (folder / FILE).write_text(RIGHT + "\n")
    assert "10 min  begun (an earlier text passed)" in call().stdout


def test_a_finding_of_the_check_is_told_with_its_code(call, folder: Path) -> None:
    (folder / "mine.py").write_text(exercise_of(1).solution.replace("2 * x", "x"))
    told = call("1", "--file", "mine.py")
    assert told.exit_code == 1
    assert (
        "\n\nGW101 gradient-value-wrong\n"
        "  what   square returns a wrong gradient of x: constant factor (0.5 times what it is)\n"
        "  where  mine.py:14\n" in told.stdout
    )
    assert "  more   gradwright explain GW101\n" in told.stdout and "these inputs again: --seed 7" in told.stdout


def test_every_exercise_is_listed(call) -> None:
    listed = call().stdout
    for exercise in all_exercises():
        assert f"{exercise.number:>2}  {exercise.title}" in listed
    assert f"{len(all_exercises())} exercises, 0 passed here" in listed
    assert max(map(len, listed.splitlines())) <= 100


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("99",), "there is no exercise '99'; there are 1 (A square"),
        (("huber",), "there is no exercise 'huber'"),
        (("²",), "there is no exercise '²'"),
        (("--hint",), "which exercise?"),
        (("5", "--file", "nowhere/x.py"), "there is no folder nowhere for nowhere/x.py"),
        (("5", "--file", "."), "is a directory"),
    ],
)
def test_wrong_usage_says_what_there_is(words: tuple[str, ...], said: str, call, folder: Path) -> None:
    found = call(*words)
    assert found.exit_code == 2 and said in found.stderr
    assert list(folder.iterdir()) == []


def test_what_is_there_is_never_written_over(call, folder: Path) -> None:
    (folder / FILE).symlink_to(folder / "elsewhere.py")
    found = call("5")
    assert found.exit_code == 2 and "something of that name is there" in found.stderr
    assert not (folder / "elsewhere.py").exists()


def test_a_grader_that_fails_is_no_answer_that_fails(call, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **__: object) -> Outcome:
        raise GradwrightError("the grader itself failed; please report this:\nsomething")

    (folder / FILE).write_text(RIGHT)
    monkeypatch.setattr(start, "graded", broken)
    found = call("5")
    assert found.exit_code == 3 and "the grader itself failed" in found.stderr


def test_a_process_of_its_own_passes_a_right_answer(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (folder / "random.py").write_text("raise AssertionError('the neighbour of an answer is none of the grader')\n")
    (folder / FILE).write_text("print('from the file')\n" + RIGHT)
    outcome = start.graded(exercise_of(5), Path(FILE), seed=3)
    assert outcome.passed and outcome.speed is not None and outcome.seed == 3
    assert capfd.readouterr().out == "from the file\n"


ENDINGS = {
    "never": ("while True:\n    pass\n", "it does not end", f"{FILE}:1, in <module>: while True:"),
    "at once": ("import os\nos._exit(0)\n", "it ended the process that grades it, which exited 0", ""),
}


@pytest.mark.parametrize("how", ENDINGS)
def test_a_file_that_ends_the_process_or_never_ends_is_told(how: str, folder: Path) -> None:
    text, what, where = ENDINGS[how]
    (folder / FILE).write_text(text)
    outcome = start.graded(exercise_of(5), Path(FILE), seconds=0.5)
    assert not outcome.passed and outcome.failure is not None
    assert what in outcome.failure.what and outcome.failure.where.startswith(where)
    assert "running the file" in outcome.failure.what + outcome.failure.why


def test_a_process_that_does_not_start_is_the_graders_own_fault(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.executable", "/bin/false")
    with pytest.raises(GradwrightError, match="the grader did not start: its process exited 1"):
        start.graded(exercise_of(5), Path(FILE))


def test_a_call_without_an_end_is_told_with_its_line(folder: Path) -> None:
    """The watchdog, without a process: what it would write, and that it would end."""
    from gradwright.exercises.grading import limits

    told: list[dict[str, object]] = []
    ended: list[int] = []
    watch = limits.Limits(0.05, folder / FILE, lambda **line: told.append(line), seed=3)
    exit_before, os._exit = os._exit, lambda status: ended.append(status) or time.sleep(1e6)  # type: ignore[assignment,func-returns-value,return-value]
    try:
        with watch.during("huber on 3 rows", times=2):
            end = time.monotonic() + 20
            while not ended and time.monotonic() < end:
                time.sleep(0.01)
    finally:
        os._exit = exit_before  # type: ignore[assignment]
    assert ended == [1] and told[0] == {"now": "huber on 3 rows"}
    outcome = Outcome.from_data(told[1]["outcome"])  # type: ignore[arg-type]
    assert outcome.failure is not None and "huber on 3 rows took more than 0.1 s" in outcome.failure.what
