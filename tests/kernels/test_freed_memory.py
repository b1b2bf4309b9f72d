"""Freed buffers stay, for the whole process; where they can't, nothing breaks and the reason is told.

Each case runs in a child of its own: what it sets can't be undone.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
import torch
from tests.holes import LARGE, PAGES, in_child_without_holes

from gradwright.errors import UsageError
from gradwright.ground import allocator
from gradwright.ground.forked import in_child
from gradwright.ground.page_faults import FreshBuffer, faults_of_this_thread, measure_fresh_buffer
from gradwright.kernels.freed_memory import RetainedMemory, ThreadCost, retain_freed_memory


def test_a_large_buffer_costs_no_faults_any_more() -> None:
    # A fresh process: in one whose allocation has failed once (a test's absurd size), glibc goes on in an arena of
    # 64 MiB at most, and a child has that from its parent.
    program = (
        "from gradwright.ground.page_faults import measure_fresh_buffer as faulted\n"
        "from gradwright.kernels.freed_memory import retain_freed_memory\n"
        f"before, done = faulted({LARGE}).faults, retain_freed_memory()\n"
        "print(before, done.works, done.settings)\n"
        f"print(faulted({LARGE}).faults, faulted({5 * LARGE}).faults)\n"
    )
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env={**os.environ})
    assert ran.stderr == ""
    first, second = ran.stdout.splitlines()
    before, _, done = first.partition(" ")
    assert int(before) > 0.9 * PAGES
    assert done == "True (('M_MMAP_THRESHOLD', 1073741824), ('M_TRIM_THRESHOLD', -1))"
    after, after_larger = map(int, second.split())
    assert after < PAGES / 100
    assert after_larger < PAGES / 100


def test_a_buffer_above_the_threshold_still_comes_anew() -> None:
    def faults() -> int:
        retain_freed_memory(64 << 20)
        return measure_fresh_buffer(2 * LARGE).faults

    assert in_child_without_holes(faults) > 1.9 * PAGES * 0.9


def test_several_buffers_alive_at_a_time_stay_too() -> None:
    def faults() -> int:
        retain_freed_memory()
        ones = torch.ones(LARGE // 4)
        for _ in range(20):
            before = faults_of_this_thread()
            a = ones + 1
            b = a * 2
            c = a + b
            del a, b, c
        return faults_of_this_thread() - before

    assert in_child_without_holes(faults) < PAGES / 100


def test_it_is_measured_in_this_thread_and_in_another() -> None:
    done = in_child_without_holes(lambda: retain_freed_memory(measure=True))
    assert [cost.thread for cost in done.measured] == ["this thread", "another thread"]
    for cost in done.measured:
        assert cost.before.faults > 0.9 * PAGES
        assert cost.before.buffer_bytes == cost.after.buffer_bytes == LARGE
    assert done.measured[0].after.faults < PAGES / 100


def test_what_was_measured_is_given_back() -> None:
    """But for the last buffer of the other thread, which lies where malloc_trim does not reach."""

    def grown_by(give_back: Callable[[], None]) -> float:
        allocator.give_back = give_back
        torch.ones(LARGE // 4)  # torch's own first use
        before = resident_bytes()
        retain_freed_memory(measure=True)
        return resident_bytes() - before

    real = allocator.give_back
    assert in_child_without_holes(lambda: grown_by(real)) < 1.5 * LARGE
    assert in_child_without_holes(lambda: grown_by(lambda: None)) > 1.5 * LARGE


def resident_bytes() -> int:
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * 4096


def test_a_second_call_says_that_they_stayed_before() -> None:
    first, second = in_child_without_holes(lambda: (retain_freed_memory(), retain_freed_memory()))
    assert first.reason == ""
    assert second.works
    assert second.reason == "they did before, too"


def test_a_forked_child_inherits_it() -> None:
    def in_the_childs_child() -> Any:
        retain_freed_memory()
        return in_child(lambda: measure_fresh_buffer(LARGE).faults, seconds=60).value

    assert in_child_without_holes(in_the_childs_child) < PAGES / 100


@pytest.mark.parametrize(("blocks_cached", "least", "most"), [(7, 0, PAGES / 100), (0, 0.9 * PAGES, 1.1 * PAGES)])
def test_another_thread_keeps_a_buffer_while_its_heap_is_kept(blocks_cached: int, least: float, most: float) -> None:
    """A fresh process: a thread in a child of a worker gets a heap that the worker used, with what is left there."""
    program = "import gradwright.kernels.freed_memory as m; print(m.retain_freed_memory(measure=True))"
    tunables = f"glibc.malloc.tcache_count={blocks_cached}"  # none: not even a crumb keeps a heap
    environ = {**os.environ, "GLIBC_TUNABLES": tunables}
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=environ)
    assert ran.stderr == ""
    said = ran.stdout.splitlines()
    assert said[0] == "freed buffers of up to 1,024 MiB stay with this process"
    assert said[1] == "  set         M_MMAP_THRESHOLD = 1,073,741,824, M_TRIM_THRESHOLD = -1"
    assert said[-2].startswith("  40 MB sum   this thread     9,7")
    assert said[-1].startswith("              another thread  9,7")
    after = re.search(r"-> ([\d,]+) page faults", said[-1])
    assert after
    assert least <= int(after[1].replace(",", "")) <= most


def test_the_report_prints_the_figures() -> None:
    cost = ThreadCost("this thread", FreshBuffer(LARGE, 9766, 0.0184), FreshBuffer(LARGE, 0, 0.0028))
    done = RetainedMemory(1 << 30, True, "", (("M_MMAP_THRESHOLD", 1 << 30),), (cost,))
    assert str(done).splitlines()[-1] == (
        "  40 MB sum   this thread     9,766 page faults, 18.4 ms -> 0 page faults, 2.8 ms"
    )


@pytest.mark.parametrize("size", [-1, 0, (64 << 20) - 1, 1 << 31])
def test_a_threshold_that_mallopt_or_sense_refuses_raises(size: int) -> None:
    with pytest.raises(UsageError, match=r"67,108,864 \(64 MiB\) to 2,147,483,647"):
        retain_freed_memory(size)


def test_without_glibc_it_does_nothing_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(allocator, "glibc_version", lambda: "")
    monkeypatch.setattr(allocator, "set_option", lambda *_: pytest.fail("nothing is to be set"))
    done = retain_freed_memory(measure=True)
    assert not done.works
    assert done.settings == done.measured == ()
    assert str(done) == "retain_freed_memory does nothing here: the C library is not glibc, whose options it sets"


def test_a_glibc_that_refuses_the_threshold_is_told_to_map_nothing() -> None:
    real = allocator.set_option

    def refusing(name: str, value: int) -> bool:
        return name != "M_MMAP_THRESHOLD" and real(name, value)

    def faults() -> tuple[RetainedMemory, int]:
        allocator.set_option = refusing
        return retain_freed_memory(), measure_fresh_buffer(LARGE).faults

    done, after = in_child_without_holes(faults)
    assert done.works
    assert done.settings == (("M_TRIM_THRESHOLD", -1), ("M_MMAP_MAX", 0))
    assert after < PAGES / 100


def test_options_that_help_nothing_are_not_said_to_work() -> None:
    def done() -> RetainedMemory:
        allocator.set_option = lambda name, value: True  # as where torch has an allocator of its own
        return retain_freed_memory()

    refused = in_child_without_holes(done)
    assert not refused.works
    assert str(refused).startswith("it does not help here: buffers still come anew, by a trial")
