"""Whatever a file does, its author is told where and what to do; the grader goes on."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from gradwright.exercises.catalog import exercise_of

HUBER = "def huber(prediction, target, delta=1.0):\n    "
RIGHT = exercise_of(5).solution
WHERE_2 = "exercise_05_huber.py:2"

# The file's text; which step it fails; what is said; where; what to do.
FAULTS = {
    "syntax": ("def huber(:\n", "file", "the file is not Python: invalid syntax", "exercise_05_huber.py:1", "mend"),
    "indentation": ("def huber():\nreturn 1\n", "file", "expected an indented block", WHERE_2, "mend"),
    "an import": ("import torch\nimport nowhere_to_be_found\n", "file", "raised ModuleNotFoundError", WHERE_2, "spelt"),
    "an exception": ("x = 1\ny = x / 0\n", "file", "running the file raised ZeroDivisionError", f"{WHERE_2}: y", ""),
    "sys.exit": ("import sys\nsys.exit(4)\n", "file", "running the file called sys.exit(4)", WHERE_2, "take that out"),
    "a name": ("def hubert(a, b, delta):\n    return a\n", "file", "the file defines no huber", "", "call yours huber"),
    "no function": ("huber = 3\n", "file", "huber can't be called: it is an int", "", "def huber"),
    "a class": (
        "import torch\nclass huber(torch.autograd.Function):\n    pass\n", "file", "huber is a class", "", "a function",
    ),
    "arguments": ("def huber(x):\n    return x\n", "value", "raised TypeError", "", "take these arguments"),
    "None": (f"{HUBER}prediction - target\n", "value", "it returned None", "exercise_05_huber.py:1", "return"),
    "a number": (f"{HUBER}return 0.5\n", "value", "it returned a float, not a tensor", "", ".item()"),
    "a shape": (f"{HUBER}return prediction\n", "value", "its result has shape [8, 3], where [] is asked", "", "axis"),
    "a dtype": (f"{HUBER}return (prediction - target).mean().float()\n", "value", "is float32, for inputs of float64",
                "", "zeros_like"),
    "raises": (f"{HUBER}return predicted\n", "value", "raised NameError: name 'predicted'",
               f"{WHERE_2}, in huber: return predicted", ""),
    "recursion": (f"{HUBER}return huber(prediction, target)\n", "value", "raised RecursionError", WHERE_2, "not stop"),
    "exits": (f"{HUBER}raise SystemExit(1)\n", "value", "huber on 8 rows of 3 called sys.exit(1)", WHERE_2, "take"),
}  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS)
def test_a_file_that_does_not_get_far_is_told_why(fault: str, grade) -> None:
    text, step, what, where, do = FAULTS[fault]
    outcome = grade(5, text)
    assert [one.name for one in outcome.steps if one.passed is False] == [step]
    assert outcome.failure is not None
    assert what in outcome.failure.what and where in outcome.failure.where and do in outcome.failure.do
    assert [one for one in outcome.steps if one.passed is None]  # the rest was not reached, and is listed


def test_an_argument_without_its_default_is_named(grade) -> None:
    failure = grade(5, RIGHT.replace("delta: float = 1.0", "delta: float")).failure
    assert failure.why == "it is called as huber(prediction, target, delta), here without 'delta'"
    assert failure.do.endswith("what may be left out has a default")
    assert "without" not in grade(5, "def huber(x):\n    return x\n").failure.why


SQUARE = "import gradwright as gw\n@gw.custom_gradient\ndef square(x):\n    return x * x\n"


def test_an_error_of_the_library_keeps_what_it_says_to_do(grade) -> None:
    asked = grade(1, f"{SQUARE}@square.backward\ndef back(cotangent, X):\n    return 2 * X * cotangent\n").failure
    assert asked.what == "running the file raised UsageError: the backward asks for `X`"
    assert asked.where.startswith("exercise_01_square.py:5") and asked.why == "the inputs of square are x"
    assert asked.do.startswith("name an input or `output`, or hand it over")
    without = grade(1, SQUARE).failure
    assert without.what.endswith("raised UsageError: square has no backward yet")
    assert "@square.backward" in without.do and "python -i" not in without.do


def test_a_backward_that_raises_is_told_with_its_line(grade) -> None:
    text = exercise_of(2).solution.replace("(x,) = ctx.saved_tensors", "x = ctx.kept")
    failure = grade(2, text).failure
    assert failure is not None
    assert "the backward of TimesExp on 3 rows of 4 raised AttributeError" in failure.what
    assert failure.where == "exercise_02_times_exp.py:19, in backward: x = ctx.kept"


def test_what_fails_on_a_large_input_only_is_told(grade) -> None:
    text = RIGHT.replace("    gap = ", "    assert prediction.numel() < 1000\n    gap = ")
    outcome = grade(5, text, timed=True)
    assert outcome.steps[-1].name == "speed" and outcome.steps[-1].passed is False
    assert outcome.failure is not None and "huber on 20000 errors raised AssertionError" in outcome.failure.what


def test_an_input_that_is_changed_is_named(grade) -> None:
    text = RIGHT.replace("return torch", "result = torch") + "    target.add_(1)\n    return result\n"
    failure = grade(5, text).failure
    assert failure is not None and failure.what == "huber changes its input target (8 rows of 3)"


def test_what_a_file_prints_is_shown_once(grade, capsys: pytest.CaptureFixture[str]) -> None:
    text = "print('the file')\n" + RIGHT.replace("    gap = ", "    print('a call')\n    gap = ")
    assert grade(5, text).passed
    assert capsys.readouterr().out == "the file\na call\n"


def test_a_script_part_is_left_out_and_neighbours_can_be_imported(grade, tmp_path: Path) -> None:
    (tmp_path / "beside_the_answer.py").write_text("FACTOR = 0.5\n")
    text = "from beside_the_answer import FACTOR\n" + RIGHT.replace("gap**2 / 2", "FACTOR * gap**2")
    before, path = set(sys.modules), list(sys.path)
    assert grade(5, text + "\nif __name__ == '__main__':\n    raise AssertionError\n").passed
    assert sys.path == path and "exercise_05_huber" not in sys.modules
    for name in set(sys.modules) - before:
        if name == "beside_the_answer":
            del sys.modules[name]


def test_an_answer_is_read_anew(grade) -> None:
    assert not grade(5, RIGHT.replace("gap**2 / 2", "0.6 * gap**2")).passed
    assert grade(5, RIGHT).passed


def test_inputs_are_those_of_the_seed(grade) -> None:
    wrong = RIGHT.replace("gap**2 / 2", "0.6 * gap**2")
    one, again, other = (grade(5, wrong, seed=seed).failure for seed in (1, 1, 2))
    assert one == again and one != other
