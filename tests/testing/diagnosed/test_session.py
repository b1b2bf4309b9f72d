"""What a session says and how it exits: findings, options, interruptions, faults of ours, workers."""

import pytest

from gradwright.doctor.session.facts import CalledByTests, FunctionCalls

HALVED = """
from squares import Halved, leaf

def test_halved():
    Halved.apply(leaf(3)).sum().backward()
"""

RAISING = """
import pytest
import torch

class Raising(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        raise ValueError("expected")

def test_raising():
    with pytest.raises(ValueError, match="expected"):
        Raising.apply(torch.ones(2, requires_grad=True))
"""

LOOPED = """
import torch
from squares import leaf

class Looped(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x**2
    @staticmethod
    def backward(ctx, grad_output):
        (x,) = ctx.saved_tensors
        grad_x = torch.empty_like(x)
        for row in range(len(x)):
            for col in range(x.shape[1]):
                grad_x[row, col] = grad_output[row, col] * 2 * x[row, col]
        return grad_x

bound = Looped.apply

def test_looped():
    bound(leaf(2, 2)).sum().backward()
    bound(leaf(20, 20)).sum().backward()  # the largest is the nearest to real use
"""


def test_findings_make_a_green_session_red_and_their_tests_are_named(suite):
    done = suite({"test_it.py": HALVED}, "--gradwright", "-W", "error")
    assert done.code == 1 and "1 passed" in done.text
    assert done.codes == ["GW101 Halved"]
    assert "Halved was called in test_it.py::test_halved" in done.flowing
    assert "the tests passed, these findings make the exit status 1" in done.flowing
    assert "session in .gradwright/last.json" in done.flowing
    (finding,) = done.report.findings
    assert finding.fix is not None and finding.fix.proof.mutants_rejected
    assert "the fix above is to be made by hand: gradwright fix works on scripts" in done.flowing
    assert done.report.script.argv == ()  # no script: `gradwright fix train.py` has no use for it


def test_a_session_without_the_option_says_nothing(suite):
    done = suite({"test_it.py": HALVED}, "--strict-markers")
    assert done.code == 0 and done.report is None
    assert "Function" not in done.text and "gradwright:" not in done.text


@pytest.mark.parametrize("words", [("-q",), (), ("-v",)])
def test_what_is_told_while_functions_are_tried_begins_on_a_line_of_its_own(suite, words):
    tests = "from squares import Square, leaf\ndef test_it():\n    Square.apply(leaf(3)).sum().backward()\n"
    done = suite({"test_it.py": tests}, "--gradwright", *words)
    assert "gradwright: trying the Functions that the tests called" in done.text.splitlines()
    assert "made by hand" not in done.text  # there is nothing to be made


def test_a_session_takes_no_other_files_place(suite, tmp_path):
    done = suite({"test_it.py": HALVED}, "--gradwright", "--gradwright-session", "test_it.py")
    assert done.code == pytest.ExitCode.USAGE_ERROR and "passed" not in done.text
    assert "test_it.py: that file is there, and is no session" in done.flowing
    assert (tmp_path / "test_it.py").read_text() == HALVED
    settings = {"pyproject.toml": '[tool.gradwright]\nsession = "squares.py"\n', "test_it.py": HALVED}
    assert suite(settings, "--gradwright").code == pytest.ExitCode.USAGE_ERROR


def test_collecting_alone_watches_nothing(suite):
    done = suite({"test_it.py": HALVED}, "--gradwright", "--collect-only")
    assert done.code == 0 and done.report is None and "= gradwright =" not in done.text


def test_options_of_the_command_line(suite):
    words = [
        "--gradwright",
        "--gradwright-exit-zero",
        "--gradwright-session",
        "kept/it.json",
        "-p",
        "forking",
        "--forked",
    ]
    forking = "def pytest_addoption(parser): parser.addoption('--forked', action='store_true')"
    done = suite({"test_it.py": HALVED, "forking.py": forking}, *words)
    assert "what tests do in forked processes: only this process is watched (--forked)" in done.flowing
    assert done.code == 0 and "GW101 error" in done.text
    assert "these findings leave the exit status alone · session in kept/it.json" in done.flowing
    assert done.report is None  # not where it is kept else
    again = suite({"test_it.py": HALVED}, *words[:4], "--gradwright-select", "GW2")
    assert again.code == 0 and "session in kept/it.json" in again.flowing  # a session takes a session's place

    done = suite({"test_it.py": HALVED}, "--gradwright", "--gradwright-select", "gw2,GW3")
    assert done.code == 0 and done.codes == []
    assert "WRONG in x" in done.text  # the table hides nothing


def test_settings_in_files_and_what_overrides_them(suite):
    files = {
        "test_it.py": HALVED,
        "pytest.ini": "[pytest]\ngradwright = true\n",
        "pyproject.toml": '[tool.gradwright]\nignore = ["GW1"]\n',
    }
    done = suite(files)
    assert done.code == 0 and done.codes == [] and "Halved" in done.text
    assert suite(files, "--no-gradwright").report is None
    assert suite(files, "--gradwright-ignore", "GW4").codes == ["GW101 Halved"]

    done = suite({**files, "pyproject.toml": "[tool.gradwright]\nspecimens = 3\n"})
    assert done.code == pytest.ExitCode.USAGE_ERROR and "knows no 'specimens'" in done.text


def test_from_a_cold_start_nothing_imports_torch_before_the_tests_do(suite):
    conftest = """
    import os, sys
    assert "torch" not in sys.modules
    os.environ["OMP_NUM_THREADS"] = "1"
    """
    done = suite({"conftest.py": conftest, "test_it.py": LOOPED}, "--gradwright", cold=True)
    assert done.codes == ["GW301 Looped"], done.text  # though `apply` was bound when the test was collected
    (finding,) = done.report.findings
    assert "of its tests' time" in finding.message and "of the step" not in done.flowing
    assert finding.fix is not None


def test_a_session_without_torch(suite):
    done = suite({"test_it.py": "def test_it(): pass"}, "--gradwright", cold=True)
    assert done.code == 0
    assert done.why_not("custom Functions") == "the session never imported torch"
    assert "no custom Functions" in done.text


def test_an_interrupted_session_tells_what_it_touched_without_trying_it(suite):
    interrupted = HALVED + "\ndef test_interrupted():\n    raise KeyboardInterrupt\n"
    done = suite({"test_it.py": interrupted}, "--gradwright")
    assert done.code == pytest.ExitCode.INTERRUPTED and done.codes == []
    assert "interrupted" in done.why_not("Halved")
    assert [calls.backward_calls for calls in done.report.of(FunctionCalls)] == [1]


def test_the_trying_can_be_interrupted_and_what_is_known_is_judged(suite):
    conftest = """
    from gradwright.testing.diagnosed import examined
    def interrupted(*args):
        raise KeyboardInterrupt
    examined.treat = interrupted
    """
    done = suite({"conftest.py": conftest, "test_it.py": HALVED}, "--gradwright")
    assert done.code == 1 and done.codes == ["GW101 Halved"]
    assert done.report.findings[0].fix is None
    assert "interrupted" in done.why_not("whatever is missing here")


@pytest.mark.parametrize(
    "where",
    ["examined.Examination.tried", "watched.FunctionsOfTests._meet", "watched.FunctionsOfTests.withdraw",
     "session.callers", "session.save"],
)  # fmt: skip
def test_a_fault_of_ours_is_told_and_changes_nothing(suite, where):
    conftest = f"""
    from gradwright.testing.diagnosed import examined, session, watched
    def broken(*args):
        raise ZeroDivisionError("ours")
    {where} = broken
    """
    done = suite({"conftest.py": conftest, "test_it.py": RAISING}, "--gradwright", "-W", "error")
    assert done.code == 0 and "1 passed" in done.text
    assert "the doctor itself failed; please report this" in done.text
    assert "ZeroDivisionError: ours" in done.text


def test_what_was_known_when_the_doctor_failed_is_told_and_leaves_the_exit_status_alone(suite):
    conftest = """
    from gradwright.testing.diagnosed import examined
    def broken(*args):
        raise ZeroDivisionError("ours")
    examined.treat = broken
    """
    done = suite({"conftest.py": conftest, "test_it.py": HALVED}, "--gradwright")
    assert done.code == 0 and done.codes == ["GW101 Halved"]
    assert done.why_not("whatever is missing here") == "the doctor itself failed"
    assert "the doctor itself failed; please report this" in done.text


def test_a_session_inside_of_a_test_is_not_watched_again(suite):
    outer = """
    pytest_plugins = "pytester"

    def test_inner(pytester):
        pytester.makepyfile("def test_it(): pass")
        result = pytester.runpytest_inprocess("--gradwright")
        result.assert_outcomes(passed=1)
        result.stdout.fnmatch_lines(["*not watched: this session runs inside of one that is*"])

    def test_after_it():
        from squares import Square, leaf
        Square.apply(leaf(3)).sum().backward()
    """
    done = suite({"test_it.py": outer}, "--gradwright")
    assert done.code == 0, done.text
    assert [calls.forward_calls for calls in done.report.of(FunctionCalls)] == [1]


def test_workers_hand_over_what_they_found_and_it_is_told_once(suite, warm_python):
    tests = """
    import os, pytest
    from squares import Halved, Square, leaf

    @pytest.mark.parametrize("number", range(8))
    def test_both(number, worker_id):
        Halved.apply(leaf(3)).sum().backward()
        if worker_id == "gw0":
            Square.apply(leaf(3)).sum().backward()
    """
    done = suite({"test_it.py": tests}, "--gradwright", "--tx", f"2*popen//python={warm_python}", "--dist", "each")
    assert done.code == 1 and "16 passed" in done.text
    assert done.codes == ["GW101 Halved"]
    counts = {calls.subject.split(":")[1].split("@")[0]: calls for calls in done.report.of(FunctionCalls)}
    assert (counts["Halved"].forward_calls, counts["Square"].forward_calls) == (16, 8)
    (tests,) = (one for one in done.report.of(CalledByTests) if "Halved" in one.subject)
    assert tests.count == 16
    assert done.why_not("Square") == ""  # though no test on gw1 called it
    assert "make the exit status 1" in done.flowing


def test_a_worker_that_dies_is_told(suite, warm_python):
    tests = """
    import os, sys
    def test_dies():
        os._exit(3)
    """
    worker = ("--dist", "load", "--tx", f"popen//python={warm_python}", "--max-worker-restart", "0")
    done = suite({"test_it.py": tests}, "--gradwright", *worker)
    assert done.code == 1
    assert done.why_not("what worker gw0 saw") == "it ended before it could tell"
