"""Seconds of an idle machine: those in which others had the cores do not pass."""

import os
import subprocess
import sys
import time

import pytest

from gradwright.ground import clock
from gradwright.ground.forked import in_child


class Busy:
    """A machine on which this process has waited ``seconds`` for a core, and asked how long so many ``times``."""

    def __init__(self) -> None:
        self.seconds, self.times = 0.0, 0

    def waited(self, process: int | None = None) -> float:
        self.times += 1
        return self.seconds


@pytest.fixture
def busy(monkeypatch: pytest.MonkeyPatch) -> Busy:
    found = Busy()
    monkeypatch.setattr(clock, "waited", found.waited)
    monkeypatch.setattr(clock, "_reading", clock._Reading())
    return found


def test_a_process_that_sleeps_waits_for_no_core() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", "import time; print(flush=True); time.sleep(1000)"], stdout=-1
    ) as child:
        assert child.stdout is not None
        child.stdout.readline()
        before = clock.waited(child.pid)
        time.sleep(0.3)
        assert 0.0 <= before <= clock.waited(child.pid) < before + 0.2
        child.kill()
    assert clock.waited(child.pid) == 0.0, "it has ended"


def test_what_was_waited_has_not_passed(busy: Busy, monkeypatch: pytest.MonkeyPatch) -> None:
    real = 1000.0
    monkeypatch.setattr(time, "monotonic", lambda: real)
    assert clock.now() == 1000.0
    real, busy.seconds = 1003.0, 2.0
    assert clock.now() == 1001.0
    assert clock.now() == 1001.0 and busy.times == 2, "it is read once in a while"


@pytest.mark.parametrize(("beside", "told"), [(0.0, 0.5), (3.0, 3.5), (9.0, 4.0)])
def test_a_stopwatch_leaves_it_out_but_for_what_may_have_been_beside(
    busy: Busy, monkeypatch: pytest.MonkeyPatch, beside: float, told: float
) -> None:
    """Four seconds, and 3.5 waited for a core, of which as many may have been where the clock was read."""
    readings = iter([5.0, 5.0, 9.0, 9.0 + beside])
    monkeypatch.setattr(time, "perf_counter", lambda: next(readings))
    watch = clock.Stopwatch()
    busy.seconds = 3.5
    assert watch.seconds() == told


def test_a_child_goes_on_with_what_its_parent_has_waited(busy: Busy) -> None:
    """A deadline of the parent's means the same there; the child itself begins at nothing."""
    busy.seconds = 100.0
    deadline = clock.now() + 50.0

    def ask_what_is_left() -> float:
        clock._reading.begin_again()  # as the fork itself calls it, of the reading that is not replaced
        busy.seconds = 0.0
        return deadline - clock.now()

    outcome = in_child(ask_what_is_left, seconds=60)
    assert outcome.value is not None and 40.0 < outcome.value <= 50.0


def test_a_fork_begins_its_reading_again() -> None:
    before = clock.now()
    outcome = in_child(lambda: (clock.now(), clock._reading._before, os.getpid()), seconds=60)
    assert outcome.value is not None
    now, carried, _ = outcome.value
    assert now >= before - 0.1 and carried == pytest.approx(clock._reading.waited, abs=1.0)


def test_what_a_child_waits_is_left_out_of_its_parents_time_too(busy: Busy) -> None:
    before = clock.not_counted()

    def work() -> None:
        busy.seconds = 30.0

    in_child(work, seconds=60)
    assert clock.not_counted() - before == 30.0


def test_of_a_child_that_died_it_is_what_the_system_tells(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clock, "waited", lambda process=None: 7.0 if process else 0.0)
    before = clock.not_counted()
    assert in_child(lambda: os._exit(4), seconds=60).how == "died"
    assert clock.not_counted() - before == pytest.approx(7.0)
