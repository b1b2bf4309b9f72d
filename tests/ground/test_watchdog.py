"""Work in this process: a value, an exception or the end of its time; and nothing left behind."""

import _thread
import builtins
import importlib
import subprocess
import sys
import threading
import time
from pathlib import Path

from gradwright.ground.forked import in_child
from gradwright.ground.watchdog import under_watchdog


def test_a_value_and_an_exception_come_back() -> None:
    assert under_watchdog(lambda: 5, seconds=5).value == 5
    assert under_watchdog(lambda: 1 / 0, seconds=5).why.startswith("ZeroDivisionError")


def test_what_never_ends_is_interrupted() -> None:
    def endless() -> None:
        while True:
            try:
                time.sleep(0.01)
            except Exception:
                pass

    assert under_watchdog(endless, seconds=0.3).how == "out of time"


# Deeper than 60 backwards within one another torch goes on in a thread of its own, as it does with a GPU.
ENDLESS_ELSEWHERE = """
import threading
import time
import torch
from gradwright.ground.forked import in_child
from gradwright.ground.watchdog import under_watchdog

class Nested(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, depth):
        ctx.depth = depth
        return x * 2

    @staticmethod
    def backward(ctx, cotangent):
        while ctx.depth == 0:
            assert threading.get_ident() != threading.main_thread().ident
            time.sleep(0.01)
        go_backward(ctx.depth - 1)
        return cotangent * 2, None

def go_backward(depth):
    with torch.enable_grad():
        Nested.apply(torch.ones(1, requires_grad=True), depth).backward()

print(under_watchdog(lambda: go_backward(80), seconds=0.3).how)
x = torch.ones(1, requires_grad=True)
(x * 3).backward()
print(x.grad.item())
"""


def test_a_backward_that_never_ends_in_a_thread_of_the_engine_is_interrupted_and_the_next_one_is_not() -> None:
    words = [sys.executable, "-c", ENDLESS_ELSEWHERE]  # those threads stay, and would be in the way of other tests
    ran = subprocess.run(words, capture_output=True, text=True, timeout=60)
    assert ran.stdout.split("\n") == ["out of time", "3.0", ""], ran.stderr


def test_threads_that_ran_before_are_left_alone_whoever_started_them() -> None:
    begun, goes_on, ended = threading.Event(), threading.Event(), threading.Event()

    def wait() -> None:
        begun.set()
        while not goes_on.is_set():
            time.sleep(0.01)
        ended.set()

    _thread.start_new_thread(wait, ())  # not by threading: it looks like one of the engine's
    assert begun.wait(60)
    assert under_watchdog(wait, seconds=0.3).how == "out of time"
    assert under_watchdog(lambda: 5, seconds=5).value == 5
    goes_on.set()
    assert ended.wait(60)


def test_what_is_taken_back_leaves_no_signal_behind() -> None:
    """With one, a closure that is called under a profiler begins again and again (CPython 3.11)."""

    def interrupt_in_vain() -> int:
        goes_on, waits = threading.Event(), _thread.allocate_lock()
        waits.acquire()

        def work() -> None:
            _thread.start_new_thread(lambda: waits.acquire(), ())  # stays in C: it comes to no exception
            while True:
                time.sleep(0.01)

        assert under_watchdog(work, seconds=0.3).how == "out of time"
        sys.setprofile(lambda *event: None)
        return (lambda: 5 if goes_on else 6)()

    outcome = in_child(interrupt_in_vain, seconds=30)
    assert outcome.value == 5, outcome.why


def test_other_threads_of_the_script_are_left_alone() -> None:
    goes_on, ended = threading.Event(), list[bool]()

    def wait() -> None:
        while not goes_on.is_set():
            time.sleep(0.01)
        ended.append(True)

    other = threading.Thread(target=wait)
    other.start()
    assert under_watchdog(wait, seconds=0.3).how == "out of time"
    goes_on.set()
    other.join()
    assert ended == [True]


def test_the_dog_does_not_bark_afterwards() -> None:
    under_watchdog(lambda: 5, seconds=0.05)
    time.sleep(0.2)


def test_a_package_whose_import_was_interrupted_can_be_imported_again(tmp_path: Path, monkeypatch) -> None:
    package = tmp_path / "slowly_imported"
    package.mkdir()
    (package / "part.py").write_text("")
    monkeypatch.syspath_prepend(str(tmp_path))

    def imported() -> object:
        module = importlib.import_module("slowly_imported")
        return module.part

    (package / "__init__.py").write_text(
        "import time\nimport slowly_imported.part\nfor _ in range(DELAY):\n    time.sleep(0.01)\n"
    )
    monkeypatch.setattr(builtins, "DELAY", 1000, raising=False)
    assert under_watchdog(imported, seconds=0.3).how == "out of time"
    monkeypatch.setattr(builtins, "DELAY", 0)
    assert under_watchdog(imported, seconds=30).how == "returned"
