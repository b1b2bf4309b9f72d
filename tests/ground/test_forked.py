"""Work in a forked child: its value, or why there is none; and nothing of it reaches the parent."""

import os
import signal
import subprocess
import sys
import threading
import time

import pytest
import torch

from gradwright.ground import clock, forked
from gradwright.ground.forked import in_child, torch_survives_fork


def test_a_value_comes_back() -> None:
    outcome = in_child(lambda: {"a": [1, 2]}, seconds=10)
    assert (outcome.how, outcome.value) == ("returned", {"a": [1, 2]})


def test_an_exception_comes_back_as_a_word_with_its_place() -> None:
    outcome = in_child(lambda: {}["missing"], seconds=10)
    assert outcome.how == "raised"
    assert "KeyError: 'missing'" in outcome.why and "test_forked.py" in outcome.why


def test_what_never_ends_is_ended() -> None:
    assert in_child(lambda: time.sleep(1e6), seconds=0.3).how == "out of time"


def test_time_in_which_others_have_the_cores_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    children = []

    def waited(process: int | None = None) -> float:
        children.append(process)
        return 100.0 if process else 0.0

    monkeypatch.setattr(clock, "waited", waited)
    outcome = in_child(lambda: time.sleep(0.6) or os.getpid(), seconds=0.2)  # type: ignore[func-returns-value]
    assert outcome.how == "returned" and set(children) - {None} == {outcome.value}


def test_a_child_that_blocks_every_signal_is_ended_too() -> None:
    def stubborn() -> None:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        while True:
            pass

    assert in_child(stubborn, seconds=0.3).how == "out of time"


def test_memory_is_bounded() -> None:
    outcome = in_child(lambda: torch.ones(1 << 30).sum().item(), seconds=20, memory_bytes=1 << 28)
    assert outcome.how == "out of memory", outcome


@pytest.mark.parametrize(("kill", "word"), [(signal.SIGTERM, "SIGTERM"), (signal.SIGKILL, "SIGKILL")])
def test_a_crash_of_the_child_is_named(kill: int, word: str) -> None:
    outcome = in_child(lambda: os.kill(os.getpid(), kill), seconds=10)
    assert outcome.how == "died" and word in outcome.why


def test_an_exit_of_the_child_is_named() -> None:
    assert "exit code 4" in in_child(lambda: os._exit(4), seconds=10).why


def test_nothing_of_it_reaches_the_parent(capfd: pytest.CaptureFixture[str]) -> None:
    tensor = torch.zeros(3)

    def change() -> None:
        tensor.add_(1)
        torch.manual_seed(5)
        print("not seen")
        print("not seen", file=sys.stderr)
        os.write(1, b"not seen")

    before = torch.get_rng_state()
    assert in_child(change, seconds=10).how == "returned"
    assert tensor.tolist() == [0, 0, 0]
    assert torch.equal(torch.get_rng_state(), before)
    assert capfd.readouterr() == ("", "")


def test_gradients_can_be_computed_in_the_child() -> None:
    def gradient() -> list[float]:
        x = torch.ones(3, requires_grad=True)
        (x @ x).backward()
        assert x.grad is not None
        return x.grad.tolist()

    gradient()
    assert in_child(gradient, seconds=20).value == [2, 2, 2]


def test_a_result_that_does_not_pickle_is_a_word() -> None:
    assert "pickle" in in_child(lambda: lambda: 1, seconds=10).why


# --- can a child go backward? ----------------------------------------------------------------------------------------

NESTED = """
import torch
from torch.utils.checkpoint import checkpoint
from gradwright.ground.forked import in_child, torch_survives_fork

def nest(x, depth):
    return checkpoint(lambda t: nest(t, depth - 1), x, use_reentrant=True) if depth else x * 2

def go_backward():
    (torch.ones((), requires_grad=True) * 3).backward()

for depth in (5, 70):  # autograd takes a thread of its own beyond 60
    nest(torch.ones(2, requires_grad=True), depth).sum().backward()
    print(depth, torch_survives_fork(), in_child(go_backward, seconds=20).how)
"""


def test_a_child_is_no_place_for_autograd_once_it_has_threads() -> None:
    done = subprocess.run([sys.executable, "-c", NESTED], capture_output=True, text=True, timeout=120)
    assert done.stdout.splitlines() == ["5 True returned", "70 False raised"], done.stderr


def test_a_child_asks_again_only_where_there_are_other_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    assert torch_survives_fork()
    monkeypatch.setattr(forked, "in_child", lambda *given, **named: pytest.fail("asked again"))
    assert torch_survives_fork()
    done = threading.Event()
    thread = threading.Thread(target=done.wait)
    thread.start()
    try:
        with pytest.raises(pytest.fail.Exception, match="asked again"):
            torch_survives_fork()
    finally:
        done.set()
        thread.join()


def test_a_child_takes_itself_for_one() -> None:
    assert in_child(torch_survives_fork, seconds=20).value is True
