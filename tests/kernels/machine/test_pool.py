"""Threads that run kernels: each block once, never a thread more than asked for, nothing in use after the launch."""

import os
import signal
import threading
import time
from array import array

import pytest
import torch
from tests.kernels.machine.by_hand import BLOCK, Call, python, scaled, times
from tests.kernels.machine.in_llvm import HELD, Held, from_text, launch, met, until_both_are_inside

from gradwright.kernels.machine.compiling import kernel


@pytest.mark.parametrize("threads", [1, 2, 3, 16])
@pytest.mark.parametrize("count", [1, BLOCK, BLOCK + 1, 100 * BLOCK - 1])
def test_each_element_is_written_whatever_the_number_of_threads(threads: int, count: int) -> None:
    call = Call(count)
    assert call.run(kernel(scaled(3), "triple"), threads) == times(3, count)
    assert call.parameters[1] == call.parameters[2] == -(-count // BLOCK)


def test_a_launch_without_blocks_returns() -> None:
    assert Call(0).run(kernel(scaled(3), "triple"), 4) == []


def test_threads_work_at_the_same_time() -> None:
    assert met() == [0.5, 0.5]  # one alone would not come back
    for _ in range(100):
        met()


def test_threads_flush_subnormal_numbers_exactly_when_the_launching_one_does() -> None:
    met()  # so that the worker is older than the change
    assert torch.set_flush_denormal(True)
    try:
        assert met() == [0.0, 0.0]
    finally:
        torch.set_flush_denormal(False)
    assert met() == [0.5, 0.5]


def test_one_thread_starts_none_and_more_start_as_many_as_are_missing_once() -> None:
    kernel(scaled(3), "triple")  # kept on disk
    ran = python(
        "import re, pathlib; from tests.kernels.machine.by_hand import *\n"
        "def count(): return int(re.search(r'Threads:\\s+(\\d+)', pathlib.Path('/proc/self/status').read_text())[1])\n"
        "triple, before = kernel(scaled(3), 'triple'), count()\n"
        "for threads in (1, 1, 2, 2, 4, 3, 1): Call().run(triple, threads); print(count() - before)"
    )
    assert ran.stdout.split() == ["0", "0", "1", "1", "3", "3", "3"], ran.stderr


def test_where_the_system_gives_no_more_threads_the_calling_one_does_it_all() -> None:
    kernel(scaled(3), "triple")  # kept on disk
    ran = python(
        "import resource; from tests.kernels.machine.by_hand import *\n"
        "triple = kernel(scaled(3), 'triple'); Call().run(triple, 2)\n"
        "pages = int(open('/proc/self/statm').read().split()[0])\n"
        "resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + 2**21,) * 2)\n"
        "print(Call().run(triple, 3) == Call().run(triple, 3) == times(3)); print(pool.describe())"
    )
    told = "1 threads of kernels; no more: the system gives no more threads (Resource temporarily unavailable)"
    assert ran.stdout == f"True\n{told}\n", ran.stderr


def test_threads_of_the_pool_leave_signals_to_python() -> None:
    ran = python(
        "import pathlib, re; from tests.kernels.machine.in_llvm import *\n"
        "meeting, tasks = from_text(MEETING, 'meeting'), pathlib.Path('/proc/self/task')\n"
        "before = set(tasks.iterdir()); met(); [new] = set(tasks.iterdir()) - before\n"
        "print(re.search(r'SigBlk:\\s+(\\w+)', (new / 'status').read_text())[1])"
    )
    blocked = int(ran.stdout, 16)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGALRM, signal.SIGUSR1):
        assert blocked >> (number - 1) & 1
    for number in (signal.SIGSEGV, signal.SIGFPE, signal.SIGILL, signal.SIGBUS):
        assert not blocked >> (number - 1) & 1


def test_an_interrupt_waits_until_the_last_block_is_done() -> None:
    words = array("q", [0, 0, 4, 0])
    kernel_held = from_text(HELD, "held")

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    def beside() -> None:
        until_both_are_inside(words)
        os.kill(os.getpid(), signal.SIGUSR1)
        time.sleep(0.02)
        words[3] = 1

    before = signal.signal(signal.SIGUSR1, interrupt)
    thread = threading.Thread(target=beside)
    try:
        with pytest.raises(KeyboardInterrupt):
            thread.start()
            launch(kernel_held, words, 2)
        assert words[1] == 4
    finally:
        signal.signal(signal.SIGUSR1, before)
        thread.join()
    assert Call().run(kernel(scaled(3), "triple"), 2) == times(3)


def test_while_the_threads_are_busy_for_one_launch_another_runs_alone() -> None:
    held = Held()
    assert Call().run(kernel(scaled(3), "triple"), 2) == times(3)
    assert held.done == 0
    held.release()
    assert held.done == 4


def test_the_interpreter_ends_in_silence_in_the_middle_of_a_launch() -> None:
    ran = python("from tests.kernels.machine.in_llvm import *\nheld = Held(daemon=True)\nprint('the end', held.done)")
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "the end 0\n", "")


def test_the_interpreter_waits_for_a_launch_of_a_thread_that_is_no_daemon() -> None:
    ran = python(
        "from tests.kernels.machine.in_llvm import *\n"
        "held = Held()\n"
        "threading.Timer(0.05, held.release).start()\n"
        "print('the end', held.done)"
    )
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "the end 0\n", "")


def test_a_kernel_can_be_run_when_the_interpreter_is_ending() -> None:
    kernel(scaled(3), "triple")  # kept on disk
    ran = python(
        "import atexit; from tests.kernels.machine.by_hand import *\n"
        "atexit.register(lambda: print(Call().run(kernel(scaled(3), 'triple'), 4) == times(3)))"
    )
    assert (ran.stdout, ran.stderr) == ("True\n", "")
